"""The arrays that a vector step is written into, laid out over one block of memory.

`SerialVecEnv` and `SubprocVecEnv` differ only in who writes: both carve the same arrays out
of a buffer, private in the first case and shared with the workers in the second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from sweeper.core.errors import InputError
from sweeper.envs.vec_env import Observation, VecStep

CACHE_LINE = 64

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Leaf(NamedTuple):
    """One array-like space inside an observation space."""

    path: tuple[str | int, ...]
    """Keys (Dict) and positions (Tuple) that lead to it; empty when it is the whole space."""
    space: Space[Any]

    @property
    def key(self) -> str:
        """Its name in a batched observation, nested levels joined by dots."""
        return ".".join(map(str, self.path))

    def of(self, observation: Any) -> Any:
        """This leaf's part of one environment's observation."""
        for step in self.path:
            observation = observation[step]
        return observation


def leaves(space: Space[Any], path: tuple[str | int, ...] = ()) -> Iterator[Leaf]:
    """The array-like spaces inside `space`, depth first.

    Raises InputError, by name, for what fixed arrays cannot hold (Text, Graph, Sequence, OneOf).
    """
    if isinstance(space, spaces.Dict):
        for key, child in space.spaces.items():
            yield from leaves(child, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for position, child in enumerate(space.spaces):
            yield from leaves(child, (*path, position))
    elif isinstance(space, ARRAY_SPACES):
        yield Leaf(path, space)
    else:
        where = f" (at {'.'.join(map(str, path))!r})" if path else ""
        raise InputError(
            f"observation space {type(space).__name__}{where} is not supported: "
            "use Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of them"
        )


def check_action_space(space: Space[Any]) -> None:
    """Raises InputError, by name, for actions that are not one array a step."""
    if not isinstance(space, ARRAY_SPACES):
        raise InputError(
            f"action space {type(space).__name__} is not supported: "
            "use Box, Discrete, MultiDiscrete or MultiBinary"
        )


def check_spaces(observation_space: Space[Any], action_space: Space[Any]) -> None:
    """Raises InputError for a space that arrays cannot hold, naming it."""
    for _ in leaves(observation_space):
        pass
    check_action_space(action_space)


@dataclass(frozen=True, slots=True)
class VecArrays:
    """Everything n environments read (actions) and write (the rest), one row each."""

    action: NDArray[Any]
    observation: Observation
    reward: NDArray[Any]
    terminated: NDArray[Any]
    truncated: NDArray[Any]
    final_observation: Observation
    episode_return: NDArray[Any]
    episode_length: NDArray[Any]

    def rows(self, rows: slice) -> VecArrays:
        """Views of some environments' rows."""

        def cut(array: Observation) -> Any:
            if isinstance(array, dict):
                return {key: leaf[rows] for key, leaf in array.items()}
            return array[rows]

        return VecArrays(*(cut(getattr(self, name)) for name in self.__slots__))

    def step(self) -> VecStep:
        """The same arrays as the caller of `step` sees them."""
        return VecStep(*(getattr(self, name) for name in VecStep._fields))


class Carver:
    """Hands out arrays from a buffer, front to back, each on a cache line of its own.

    With no buffer it only counts, so one description of a layout gives its size as well.
    """

    def __init__(self, buffer: Any = None) -> None:
        self._buffer = buffer
        self.nbytes = 0

    def array(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """A zeroed array (the buffer is new) of `shape` and `dtype`."""
        dtype = np.dtype(dtype)
        start = -(-self.nbytes // CACHE_LINE) * CACHE_LINE
        count = math.prod(shape)
        self.nbytes = start + count * dtype.itemsize
        if self._buffer is None:
            return np.broadcast_to(np.zeros((), dtype), shape)
        return np.frombuffer(self._buffer, dtype, count, start).reshape(shape)


def carve(
    carver: Carver, observation_space: Space[Any], action_space: Space[Any], *, n_envs: int
) -> VecArrays:
    """The arrays of `n_envs` environments with these spaces."""

    def of_space(space: Space[Any]) -> NDArray[Any]:
        return carver.array((n_envs, *(space.shape or ())), space.dtype)

    def observations() -> Observation:
        found = list(leaves(observation_space))
        if len(found) == 1 and not found[0].path:
            return of_space(observation_space)
        return {leaf.key: of_space(leaf.space) for leaf in found}

    return VecArrays(
        action=of_space(action_space),
        observation=observations(),
        reward=carver.array((n_envs,), np.float32),
        terminated=carver.array((n_envs,), np.bool_),
        truncated=carver.array((n_envs,), np.bool_),
        final_observation=observations(),
        episode_return=carver.array((n_envs,), np.float64),
        episode_length=carver.array((n_envs,), np.int64),
    )
