"""Stable-Baselines3's PPO and A2C as learners: its code, on our environments, under our deadline.

A learner collects and updates with its own `collect_rollouts` and `train`, which is what its
`learn` does too; only what ends them is ours. A vector step, or a minibatch, is finished before the
deadline is seen. The schedule follows progress through the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.preprocessing import is_image_space

from sweeper.core.clock import Deadline
from sweeper.core.errors import DivergedError, InputError
from sweeper.core.timing import PhaseTimer
from sweeper.envs.vec_env import Observation, VecEnv
from sweeper.optim.schedules import multiplier
from sweeper.rl.foreign import SB3A2CSpec, SB3PPOSpec, SB3Spec
from sweeper.rl.learner import UpdateStatistics
from sweeper.rl.sb3_vec_env import SB3VecEnv

ACTIVATIONS = {
    "tanh": torch.nn.Tanh,
    "relu": torch.nn.ReLU,
    "elu": torch.nn.ELU,
    "leaky_relu": torch.nn.LeakyReLU,
}


class SB3Learner:
    """See `Learner`. Raises InputError for a space that Stable-Baselines3 cannot serve."""

    def __init__(self, spec: SB3Spec, vec_env: VecEnv, *, seed: int, timer: PhaseTimer) -> None:
        self._timer = timer
        space = vec_env.single_observation_space
        is_dict = isinstance(space, spaces.Dict)
        algorithm, own = _own(spec, vec_env.n_envs)
        try:
            self.model = algorithm(
                _policy(space),
                SB3VecEnv(vec_env),
                learning_rate=_Schedule(spec),
                n_steps=spec.n_steps,
                gamma=spec.gamma,
                gae_lambda=spec.gae_lambda,
                normalize_advantage=spec.normalize_advantage,
                ent_coef=spec.ent_coef,
                vf_coef=spec.vf_coef,
                max_grad_norm=spec.max_grad_norm,
                rollout_buffer_class=_CutDictRolloutBuffer if is_dict else _CutRolloutBuffer,
                policy_kwargs={
                    "net_arch": list(spec.net_arch),
                    "activation_fn": ACTIVATIONS[spec.activation_fn],
                    "ortho_init": spec.ortho_init,
                },
                seed=seed,
                device="cpu",
                **own,
            )
        # What Stable-Baselines3 raises, one or the other, for spaces that it has no policy or
        # buffer for: nothing of ours is left to be implemented.
        except (AssertionError, NotImplementedError, ValueError) as error:
            raise InputError(
                f"{spec.kind}: Stable-Baselines3 cannot train on this: {error}"
            ) from error
        self.model.set_logger(Logger(folder=None, output_formats=[]))
        _, self._callback = self.model._setup_learn(1, _Deadline())
        self._time_inference(self.model.policy)

    def train(self, deadline: Deadline) -> Iterator[UpdateStatistics]:
        """See Learner."""
        model, callback = self.model, self._callback
        buffer = model.rollout_buffer
        assert isinstance(callback, _Deadline)
        callback.deadline = buffer.deadline = deadline
        while not deadline.expired:
            with self._timer("bookkeeping"):
                whole = model.collect_rollouts(model.env, callback, buffer, model.n_steps)
            if not whole:
                return
            model._current_progress_remaining = 1.0 - deadline.progress
            try:
                with self._timer("gradient"):
                    model.train()
            except _OutOfTimeError:
                return
            if not all(bool(p.isfinite().all()) for p in model.policy.parameters()):
                raise DivergedError(f"a parameter is not finite at {deadline.env_steps} env steps")
            yield _statistics(model.logger)

    def act(self, observation: Observation, rng: np.random.Generator | None) -> NDArray[Any]:
        """See Learner."""
        if rng is not None:  # its policies draw from torch's own generator
            torch.manual_seed(int(rng.integers(2**63)))
        action, _ = self.model.predict(observation, deterministic=rng is None)
        return np.asarray(action)

    def _time_inference(self, policy: torch.nn.Module) -> None:
        """Charge the policy's forward passes, of which only collecting makes any."""
        phase = self._timer("inference")
        policy.register_forward_pre_hook(lambda *_: phase.__enter__())
        policy.register_forward_hook(lambda *_: phase.__exit__(None, None, None))


class _Schedule:
    """Share of the budget that is left -> learning rate."""

    def __init__(self, spec: SB3Spec) -> None:
        self._rate, self._schedule = spec.learning_rate, spec.learning_rate_schedule

    def __call__(self, left: float) -> float:
        return self._rate * multiplier(self._schedule, 1.0 - left)


class _Deadline(BaseCallback):  # type: ignore[misc]
    """Ends collecting; steps that fill a rollout are still learned from."""

    deadline: Deadline

    def _on_step(self) -> bool:
        is_last = self.locals["n_steps"] + 1 == self.model.n_steps
        deadline = self.deadline
        return not (deadline.out_of_time or (deadline.expired and not is_last))


class _OutOfTimeError(Exception):
    """Leaves Stable-Baselines3's update between two minibatches."""


class _CutRolloutBuffer(RolloutBuffer):  # type: ignore[misc]
    """Hands out minibatches for as long as there is time."""

    deadline: Deadline

    def get(self, batch_size: int | None = None) -> Iterator[Any]:
        """Raises _OutOfTimeError."""
        yield from _in_time(super().get(batch_size), self.deadline)


class _CutDictRolloutBuffer(DictRolloutBuffer):  # type: ignore[misc]
    """The same, of observations in a dict."""

    deadline: Deadline

    def get(self, batch_size: int | None = None) -> Iterator[Any]:
        """Raises _OutOfTimeError."""
        yield from _in_time(super().get(batch_size), self.deadline)


def _in_time(minibatches: Iterator[Any], deadline: Deadline) -> Iterator[Any]:
    for minibatch in minibatches:
        if deadline.out_of_time:
            raise _OutOfTimeError
        yield minibatch


def _own(spec: SB3Spec, n_envs: int) -> tuple[type[Any], dict[str, Any]]:
    """The algorithm, and the arguments that it shares with no other."""
    if isinstance(spec, SB3PPOSpec):
        return PPO, {
            # Of more than the rollout it would make one minibatch just so, with a warning.
            "batch_size": min(spec.batch_size, spec.n_steps * n_envs),
            "n_epochs": spec.n_epochs,
            "clip_range": spec.clip_range,
            "clip_range_vf": spec.clip_range_vf,
            "target_kl": spec.target_kl,
        }
    assert isinstance(spec, SB3A2CSpec)
    return A2C, {"use_rms_prop": spec.use_rms_prop, "rms_prop_eps": spec.rms_prop_eps}


def _policy(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if is_image_space(space) else "MlpPolicy"


def _statistics(logger: Logger) -> UpdateStatistics:
    """What `train` recorded."""
    entropy_loss = _finite(logger, "entropy_loss")
    is_ppo = "train/policy_gradient_loss" in logger.name_to_value
    return UpdateStatistics(
        learning_rate=_finite(logger, "learning_rate"),
        approx_kl=_finite(logger, "approx_kl"),
        clip_fraction=_finite(logger, "clip_fraction"),
        entropy=None if entropy_loss is None else -entropy_loss,
        policy_loss=_finite(logger, "policy_gradient_loss" if is_ppo else "policy_loss"),
        value_loss=_finite(logger, "value_loss"),
        explained_variance=_finite(logger, "explained_variance"),
    )


def _finite(logger: Logger, name: str) -> float | None:
    value = logger.name_to_value.get(f"train/{name}")
    return float(value) if value is not None and math.isfinite(value) else None
