"""AlgorithmSpec -> a learner."""

from __future__ import annotations

from pydantic import ValidationError

from sweeper.core.errors import InputError
from sweeper.core.timing import PhaseTimer
from sweeper.envs.vec_env import VecEnv
from sweeper.rl.actor_critic import ActorCriticLearner
from sweeper.rl.custom import checked_parameters, learner_class
from sweeper.rl.foreign import CustomSpec, SB3Spec
from sweeper.rl.learner import Learner
from sweeper.rl.spec import AlgorithmSpec


def build_learner(spec: AlgorithmSpec, vec_env: VecEnv, *, seed: int, timer: PhaseTimer) -> Learner:
    """A fresh learner on these environments; InputError names a space it cannot serve, and what
    is wrong with a learner of the user's own."""
    match spec:
        case CustomSpec():
            return _custom(spec, vec_env, seed=seed, timer=timer)
        case SB3Spec():
            from sweeper.rl.sb3 import SB3Learner  # noqa: PLC0415 - an extra

            return SB3Learner(spec, vec_env, seed=seed, timer=timer)
        case _:
            return ActorCriticLearner(spec, vec_env, seed=seed, timer=timer)


def _custom(spec: CustomSpec, vec_env: VecEnv, *, seed: int, timer: PhaseTimer) -> Learner:
    try:
        parameters = checked_parameters(spec)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, ("algorithm", *first["loc"])))
        raise InputError(f"{key}: {first['msg']}") from error
    return learner_class(spec.kind)(parameters, vec_env, seed=seed, timer=timer)
