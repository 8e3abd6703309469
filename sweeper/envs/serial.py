"""`SerialVecEnv`: every environment in this process. The oracle, and often fast enough."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.core.errors import EnvError, InputError
from sweeper.envs.arrays import Carver, carve
from sweeper.envs.block import (
    ActionMode,
    EnvBlock,
    EnvFn,
    close_envs,
    env_seeds,
    make_envs,
    policy_action_space,
)
from sweeper.envs.groups import GroupedArrays, split
from sweeper.envs.vec_env import Observation, VecStep


class SerialVecEnv:
    """A VecEnv without processes; see `sweeper.envs.vec_env.VecEnv` for the contract.

    Raises InputError for no environments, one instance behind several functions, spaces that
    differ or that arrays cannot hold; EnvWorkerError for an environment that raises.
    """

    n_workers = 0
    worker_pids: tuple[int, ...] = ()

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        seed: int = 0,
        n_groups: int = 1,
        action: ActionMode = "none",
    ) -> None:
        self.n_envs = len(env_fns)
        self.groups = split(self.n_envs, n_groups, "n_groups")
        self._seeds = env_seeds(seed, self.n_envs)
        self._envs = make_envs(env_fns, self._seeds)
        try:
            spaces = self._envs[0].observation_space, self._envs[0].action_space
            self.single_observation_space = spaces[0]
            self.single_action_space = policy_action_space(spaces[1], action)
            size = Carver()
            carve(size, *spaces, n_envs=self.n_envs)
            arrays = carve(Carver(bytearray(size.nbytes)), *spaces, n_envs=self.n_envs)
            self._arrays = GroupedArrays(arrays, self.groups)
            self._blocks = [
                EnvBlock(
                    self._envs[rows],
                    self._seeds[rows],
                    arrays.rows(rows),
                    first_index=rows.start,
                    action=action,
                    cursor=np.zeros(1, np.int32).data,
                )
                for rows in self.groups
            ]
        except InputError:
            self.close()
            raise

    def reset(self) -> Observation:
        """First observations [N, ...]; seeded the first time. Raises EnvWorkerError."""
        if not self._envs:
            raise EnvError("this SerialVecEnv is closed")
        self._arrays.begin_reset()
        for block in self._blocks:
            block.reset()
        return self._arrays.finish_reset()

    def step(self, actions: NDArray[Any]) -> VecStep:
        """Step every environment with actions [N, ...]. Raises EnvWorkerError."""
        self._arrays.check_actions(actions)
        for group, rows in enumerate(self.groups):
            self.step_async(actions[rows], group)
        for group in range(len(self.groups)):
            self.step_wait(group)
        return self._arrays.whole

    def step_async(self, actions: NDArray[Any], group: int = 0) -> None:
        """Take one group's actions [n, ...]; `step_wait` does the stepping."""
        self._arrays.begin_step(actions, group)

    def step_wait(self, group: int = 0) -> VecStep:
        """Step the group whose actions were given. Raises EnvWorkerError."""
        if not self._envs:
            raise EnvError("this SerialVecEnv is closed")
        step = self._arrays.finish_step(group)
        self._blocks[group].step()
        return step

    def close(self) -> None:
        """Close every environment; one that raises is a RuntimeWarning. Safe to call twice."""
        envs, self._envs = self._envs, []
        for complaint in close_envs(envs, self._seeds):
            warnings.warn(complaint, RuntimeWarning, stacklevel=2)

    def __enter__(self) -> SerialVecEnv:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
