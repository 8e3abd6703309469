"""From an `EnvSpec` to environments: checked once in a described copy, then N of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
from gymnasium import error as gym_error
from gymnasium import spaces

from sweeper.core.errors import EnvWorkerError, InputError
from sweeper.envs.arrays import check_spaces, leaves
from sweeper.envs.block import policy_action_space
from sweeper.envs.factory import EnvFactory
from sweeper.envs.native import NativeVecEnv
from sweeper.envs.process import StartMethod
from sweeper.envs.serial import SerialVecEnv
from sweeper.envs.spec import EnvSpec
from sweeper.envs.subproc import SubprocVecEnv
from sweeper.envs.vec_env import VecEnv
from sweeper.envs.vector_factory import VectorFactory

VecEnvKind = Literal["serial", "subproc", "gymnasium"]

EXTRAS = {
    "gymnasium.envs.mujoco": "sweeper[mujoco]",
    "gymnasium.envs.box2d": "gymnasium[box2d]",
    "gymnasium.envs.classic_control": "gymnasium[classic-control]",
    "gymnasium.envs.toy_text": "gymnasium[toy-text]",
    "gymnasium.envs.phys2d": "gymnasium[jax]",
    "gymnasium.envs.tabular": "gymnasium[jax]",
    "ale_py": "sweeper[atari]",
}
"""Package of an environment's entry point -> what to install for it."""


@dataclass(frozen=True)
class EnvDescription:
    """What is known of an environment before it is trained on."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    """As the policy sees it: [-1, 1] when actions are rescaled."""
    reward_threshold: float | None
    """Mean return that counts as solved; None when it registers none."""
    max_episode_steps: int | None


def env_factory(spec: EnvSpec) -> EnvFactory:
    """A picklable function that makes one environment."""
    return EnvFactory(
        id=spec.id,
        make=spec.make,
        kwargs=spec.kwargs,
        max_episode_steps=spec.max_episode_steps,
        wrappers=tuple((wrapper.wrapper, wrapper.kwargs) for wrapper in spec.wrappers),
    )


def vector_factory(spec: EnvSpec) -> VectorFactory:
    """A function that makes the environment's native vector implementation.

    Raises InputError when wrappers would be lost: the registered implementation takes none.
    """
    vector = spec.vector
    if vector.make is None and spec.wrappers:
        raise InputError(
            f"env.wrappers wrap single environments, and the native vector implementation of "
            f"{spec.name} has none: use serial or subproc, or give one that does what they do in "
            "`env.vector.make`"
        )
    return VectorFactory(
        id=spec.id,
        make=vector.make,
        kwargs=spec.kwargs if vector.kwargs is None else vector.kwargs,
        max_episode_steps=spec.max_episode_steps,
    )


def make_vec_env(
    spec: EnvSpec,
    *,
    vec_env: VecEnvKind,
    n_envs: int,
    envs_per_worker: int | None = None,
    start_method: StartMethod = "forkserver",
    n_groups: int = 1,
    seed: int,
    cpus: Sequence[int] | None = None,
    setup_timeout: float = 120.0,
) -> VecEnv:
    """N copies of an environment, seeded from `seed`; `serial` and `subproc` give the same
    trajectories, `gymnasium` those of the native implementation.

    The arguments after `n_envs` that concern processes are as `SubprocVecEnv` has them and
    mean nothing to the others. Raises InputError and EnvError as the VecEnvs do.
    """
    if vec_env == "gymnasium":
        factory = vector_factory(spec)
        return NativeVecEnv(
            factory, n_envs=n_envs, seed=seed, n_groups=n_groups, action=spec.action
        )
    env_fns = [env_factory(spec)] * n_envs
    if vec_env == "serial":
        return SerialVecEnv(env_fns, seed=seed, n_groups=n_groups, action=spec.action)
    return SubprocVecEnv(
        env_fns,
        envs_per_worker=envs_per_worker,
        start_method=start_method,
        seed=seed,
        n_groups=n_groups,
        action=spec.action,
        cpus=cpus,
        step_timeout=spec.step_timeout,
        setup_timeout=setup_timeout,
    )


def describe(spec: EnvSpec) -> EnvDescription:
    """Make one environment, look at it and close it.

    Raises InputError, in one line, when it cannot be made or used: an unknown id (with near
    matches), a missing dependency (with what to install), a constructor or wrapper that
    raises, a space that is not supported, `rescale` of unbounded actions, observations that
    cannot be normalized.
    """
    env = _make(spec)
    try:
        observation_space, action_space = env.observation_space, env.action_space
        check_spaces(observation_space, action_space)
        if spec.normalize_observation and not isinstance(observation_space, spaces.Box):
            raise InputError(
                "normalize_observation needs a Box observation space, "
                f"{spec.name} has {type(observation_space).__name__}"
            )
        registered = env.spec
        return EnvDescription(
            observation_space=observation_space,
            action_space=policy_action_space(action_space, spec.action),
            reward_threshold=registered.reward_threshold if registered else None,
            max_episode_steps=registered.max_episode_steps if registered else None,
        )
    finally:
        env.close()


def check_native(spec: EnvSpec) -> None:
    """Make the native vector implementation once, look at it and close it.

    Raises InputError, in one line, when there is none, it cannot be made or used, or its
    spaces differ from those of the single environment, on which policies are evaluated.
    """
    single = describe(spec)
    try:
        vector = make_vec_env(spec, vec_env="gymnasium", n_envs=2, seed=0)
    except EnvWorkerError as error:
        summary = str(error).splitlines()[0].rpartition("its constructor: ")[2]
        raise InputError(
            f"the native vector implementation of {spec.name} cannot be made: {summary}"
        ) from error
    vector.close()
    for kind, one, many in (
        ("observations", single.observation_space, vector.single_observation_space),
        ("actions", single.action_space, vector.single_action_space),
    ):
        if _forms(one) != _forms(many):
            raise InputError(
                f"the native vector implementation of {spec.name} has other {kind} than the "
                f"single environment, on which policies are evaluated: {many}, not {one}"
            )


def _forms(space: gymnasium.Space[Any]) -> list[Any]:
    """What a policy must know of a space. Bounds and the precision of floats are not in it."""
    return [
        (leaf.path, leaf.space.shape, leaf.space.dtype.kind)
        if isinstance(leaf.space, spaces.Box)
        else leaf
        for leaf in leaves(space)
    ]


def _make(spec: EnvSpec) -> gymnasium.Env[Any, Any]:
    try:
        return env_factory(spec)()
    except gym_error.DependencyNotInstalled as error:
        raise InputError(_missing(spec, error)) from error
    except gym_error.UnregisteredEnv as error:
        raise InputError(_unknown(str(spec.id))) from error
    except ImportError as error:
        if error.name == "ale_py":
            raise InputError(_missing(spec, error)) from error
        raise InputError(f"environment {spec.name} cannot be imported: {error}") from error
    except Exception as error:
        reason = (str(error).strip() or "no message").splitlines()[0]
        raise InputError(
            f"environment {spec.name} cannot be made: {type(error).__name__}: {reason}"
        ) from error


def _unknown(env_id: str) -> str:
    known = sorted(gymnasium.registry)
    near = difflib.get_close_matches(env_id, known, n=3)
    if not near:
        lower = {name.lower(): name for name in known}
        near = [lower[n] for n in difflib.get_close_matches(env_id.lower(), lower, n=3)]
    advice = (
        f"did you mean {' or '.join(near)}?"
        if near
        else ("ids of a package are written `package:Name-v0`")
    )
    return f"unknown environment {env_id!r}: {advice}"


def _missing(spec: EnvSpec, error: Exception) -> str:
    entry = getattr(error, "name", None) or ""
    if spec.id in gymnasium.registry:
        entry = str(gymnasium.registry[spec.id].entry_point)
    for package, extra in EXTRAS.items():
        if entry.startswith(package):
            return f"environment {spec.name} needs a package: pip install '{extra}'"
    reason = str(error).strip().splitlines()[0]
    return f"environment {spec.name} needs a package that is not installed: {reason}"
