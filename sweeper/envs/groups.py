"""Groups of environments: how they are cut, and the bookkeeping of stepping them apart."""

from __future__ import annotations

import itertools
from typing import Any

from numpy.typing import NDArray

from sweeper.core.errors import EnvError, InputError
from sweeper.envs.arrays import VecArrays
from sweeper.envs.vec_env import Observation, VecStep


def split(n_envs: int, parts: int, name: str) -> tuple[slice, ...]:
    """`parts` contiguous slices of 0..n_envs-1 whose sizes differ by at most one.

    Raises InputError, calling the argument `name`, when a part would be empty.
    """
    if n_envs < 1:
        raise InputError(f"a VecEnv needs at least 1 environment, got {n_envs}")
    if not 1 <= parts <= n_envs:
        raise InputError(f"{name} must be 1 to n_envs = {n_envs}, got {parts}")
    size, larger = divmod(n_envs, parts)
    starts = [part * size + min(part, larger) for part in range(parts + 1)]
    return tuple(slice(a, b) for a, b in itertools.pairwise(starts))


class GroupedArrays:
    """The arrays of all environments, cut by group, and what each group is waiting for.

    The cuts are made once: a step hands out the same views each time.
    """

    def __init__(self, arrays: VecArrays, groups: tuple[slice, ...]) -> None:
        self.whole = arrays.step()
        self._observation = arrays.observation
        self._action = arrays.action
        self._actions = [arrays.action[rows] for rows in groups]
        self._steps = [arrays.rows(rows).step() for rows in groups]
        self._stepping = [False] * len(groups)
        self._reset = False

    def check_actions(self, actions: NDArray[Any]) -> None:
        """Raises InputError unless `actions` has the shape of all environments' actions."""
        _check_shape(actions, self._action)

    def begin_step(self, actions: NDArray[Any], group: int) -> None:
        """Take the group's actions. Raises InputError for a shape that is not theirs, and
        EnvError before `reset` or while the group is still stepping."""
        if not self._reset:
            raise EnvError("a VecEnv must be reset before it is stepped")
        if self._stepping[group]:
            raise EnvError(f"step_async({group=}) again, before step_wait")
        _check_shape(actions, self._actions[group])
        self._actions[group][...] = actions
        self._stepping[group] = True

    def finish_step(self, group: int) -> VecStep:
        """Where the group's step is (or will be) written. Raises EnvError if none was begun."""
        if not self._stepping[group]:
            raise EnvError(f"step_wait({group=}) without step_async")
        self._stepping[group] = False
        return self._steps[group]

    def begin_reset(self) -> None:
        """Raises EnvError while a group is stepping."""
        if any(self._stepping):
            raise EnvError("reset while a step is under way: call step_wait first")

    def finish_reset(self) -> Observation:
        """The observations of all environments, from now on allowed to step."""
        self._reset = True
        return self._observation


def _check_shape(actions: NDArray[Any], room: NDArray[Any]) -> None:
    # Assigning would broadcast a wrong shape without a word.
    if actions.shape != room.shape:
        raise InputError(f"actions must have shape {room.shape}, got {actions.shape}")
