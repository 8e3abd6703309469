"""`VectorFactory`: a recipe for a native vector implementation of an environment.

Gymnasium's own and EnvPool's reset an environment in the step after its episode's end. Both
can reset some of theirs on demand instead, and are made to say so here: they are given
`AutoresetMode.DISABLED` and heed `reset(options={"reset_mask": mask})`.
"""

from __future__ import annotations

import copy
import importlib
import os
import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from sweeper.core.errors import InputError
from sweeper.envs.factory import load

CARTPOLE = f"{CartPoleVectorEnv.__module__}:{CartPoleVectorEnv.__name__}"


@dataclass(frozen=True)
class VectorFactory:
    """Calling it returns a new VectorEnv."""

    id: str | None
    """A registered id; None when the environment is made by a function."""
    make: str | None
    """`envpool`, a function `package.module:name`, or None for the registered one of `id`."""
    kwargs: dict[str, Any]
    max_episode_steps: int | None

    def __call__(self, n_envs: int, *, seed: int) -> VectorEnv[Any, Any, Any]:
        """`n_envs` environments. `seed` is for those that are seeded when they are made, before
        they are reset with it.

        Raises InputError when there is no such implementation, and whatever it raises.
        """
        kwargs = dict(self.kwargs)
        if self.max_episode_steps is not None:
            kwargs["max_episode_steps"] = self.max_episode_steps
        if self.make == "envpool":
            return _envpool(self._needed_id(), n_envs, seed, kwargs)
        if self.make is None:
            return _registered(self._needed_id(), n_envs, kwargs)
        env = load(self.make)(num_envs=n_envs, **kwargs)
        if not isinstance(env, VectorEnv):
            raise TypeError(
                f"{self.make} must return a gymnasium.vector.VectorEnv, got {type(env).__name__}"
            )
        return env

    def _needed_id(self) -> str:
        if self.id is None:
            raise InputError(
                "`vec_env: gymnasium` of an environment that a function makes needs "
                "`env.vector.make`, a function that returns a gymnasium.vector.VectorEnv"
            )
        return self.id


class MaskedCartPole(CartPoleVectorEnv):
    """Gymnasium's CartPole, which resets environments when told to instead of a step later."""

    metadata = CartPoleVectorEnv.metadata | {"autoreset_mode": AutoresetMode.DISABLED}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """As inherited, but the next step resets nothing."""
        results = super().step(action)
        self.prev_done.fill(False)
        return results

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """As inherited, or only where `options["reset_mask"]` ([N] bool) is true."""
        mask = (options or {}).get("reset_mask")
        if mask is None:
            return super().reset(seed=seed, options=options)
        state: Any = self.state  # [4, N]
        state[:, mask] = self.np_random.uniform(self.low, self.high, (4, np.count_nonzero(mask)))
        self.steps[mask] = 0
        return state.T.astype(np.float32), {}


class EnvPoolEnv(VectorWrapper[Any, Any, Any, Any, Any]):
    """EnvPool's environments, whose own reset a step later never happens, since each has been
    reset on demand by then. They were seeded when they were made."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.metadata = env.metadata | {"autoreset_mode": AutoresetMode.DISABLED}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first observations of all, or of those in `options["reset_mask"]` alone."""
        del seed
        return self.env.reset(options=options)


def _registered(env_id: str, n_envs: int, kwargs: dict[str, Any]) -> VectorEnv[Any, Any, Any]:
    module, _, name = env_id.rpartition(":")
    if module:
        importlib.import_module(module)  # registers its environments
    spec = copy.deepcopy(gymnasium.spec(name))
    if spec.vector_entry_point is None:
        raise InputError(
            f"{env_id} has no native vector implementation, which `vec_env: gymnasium` needs: "
            "use serial or subproc, or name one in `env.vector.make` (a function, or envpool)"
        )
    if spec.vector_entry_point == CARTPOLE:
        spec.vector_entry_point = f"{__name__}:{MaskedCartPole.__name__}"
    return gymnasium.make_vec(spec, n_envs, "vector_entry_point", **kwargs)


def _envpool(
    env_id: str, n_envs: int, seed: int, kwargs: dict[str, Any]
) -> VectorEnv[Any, Any, Any]:
    try:
        envpool = importlib.import_module("envpool")
    except ModuleNotFoundError as error:
        raise InputError(
            "`env.vector.make: envpool` needs a package: pip install 'sweeper[envpool]'"
        ) from error
    task = env_id.rpartition(":")[2].removeprefix("ALE/")
    if task not in envpool.list_all_envs():
        raise InputError(f"EnvPool has no environment {task!r}")
    threads = {"num_threads": min(n_envs, len(os.sched_getaffinity(0)))}
    with warnings.catch_warnings():
        # Its float64 bounds are rounded to the space's float32, which is said once a bound.
        warnings.simplefilter("ignore", UserWarning)
        env = envpool.make_gymnasium(task, **(threads | kwargs), num_envs=n_envs, seed=seed)
        _ = env.single_observation_space, env.single_action_space  # made on first use
    return EnvPoolEnv(env)
