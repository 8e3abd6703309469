"""`InProcessVecEnv`: stepping in the caller's own process, a block of environments a group."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol, Self

import gymnasium
from numpy.typing import NDArray

from sweeper.core.errors import EnvError
from sweeper.envs.arrays import Carver, VecArrays, carve
from sweeper.envs.block import ActionMode, policy_action_space
from sweeper.envs.groups import GroupedArrays
from sweeper.envs.vec_env import Observation, VecStep


class Block(Protocol):
    """Environments that are reset and stepped together, each into its row of some arrays."""

    def reset(self) -> None:
        """Begin an episode everywhere. Raises EnvWorkerError."""
        ...

    def step(self) -> None:
        """Step each once, and reset those whose episode ends. Raises EnvWorkerError."""
        ...


class InProcessVecEnv:
    """A VecEnv without processes; see `sweeper.envs.vec_env.VecEnv` for the contract.

    `make_block` is given a group's rows and arrays; `close_all` closes what blocks step and
    returns complaints. Raises InputError for spaces that cannot be used.
    """

    n_workers = 0
    worker_pids: tuple[int, ...] = ()

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        n_envs: int,
        groups: tuple[slice, ...],
        action: ActionMode,
        make_block: Callable[[slice, VecArrays], Block],
        close_all: Callable[[], list[str]],
    ) -> None:
        self.n_envs = n_envs
        self.groups = groups
        self.single_observation_space = observation_space
        self.single_action_space = policy_action_space(action_space, action)
        size = Carver()
        carve(size, observation_space, action_space, n_envs=n_envs)
        room = Carver(bytearray(size.nbytes))
        arrays = carve(room, observation_space, action_space, n_envs=n_envs)
        self._arrays = GroupedArrays(arrays, groups)
        self._blocks = [make_block(rows, arrays.rows(rows)) for rows in groups]
        self._close_all = close_all

    def reset(self) -> Observation:
        """First observations [N, ...]; seeded the first time. Raises EnvWorkerError."""
        self._check_open()
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
        self._check_open()
        step = self._arrays.finish_step(group)
        self._blocks[group].step()
        return step

    def close(self) -> None:
        """Close every environment; one that raises is a RuntimeWarning. Safe to call twice."""
        if self._blocks:
            self._blocks = []
            for complaint in self._close_all():
                warnings.warn(complaint, RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._blocks:
            raise EnvError(f"this {type(self).__name__} is closed")
