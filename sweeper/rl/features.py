"""Observations as the flat float32 vectors that an MLP reads."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sweeper.core.errors import InputError
from sweeper.envs.vec_env import Observation

F32 = NDArray[np.float32]


class Features:
    """Writes batched observations of a space into rows of `size` floats.

    Box and MultiBinary are flattened as they are, Discrete and MultiDiscrete become one-hot,
    Dict and Tuple are concatenated in the order of the space. Raises InputError for a space
    that has no such form.
    """

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space
        self.size = _size(space)

    def __call__(self, observation: Observation, out: F32) -> None:
        """Encode observations [n, ...] into `out` [n, size]."""
        _encode(self._space, observation, out)


def _parts(space: gymnasium.Space[Any]) -> list[tuple[str, gymnasium.Space[Any]]]:
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    assert isinstance(space, spaces.Tuple)
    return [(str(i), part) for i, part in enumerate(space.spaces)]


def _size(space: gymnasium.Space[Any]) -> int:
    match space:
        case spaces.Box() | spaces.MultiBinary():
            if space.dtype == np.uint8 and len(space.shape or ()) == 3:
                raise InputError(
                    f"image observations {space} need a convolutional network; "
                    "this release has `network: {kind: mlp}` for flat observations only"
                )
            return int(np.prod(space.shape or ()))
        case spaces.Discrete():
            return int(space.n)
        case spaces.MultiDiscrete():
            return int(space.nvec.sum())
        case spaces.Dict() | spaces.Tuple():
            return sum(_size(part) for _, part in _parts(space))
        case _:
            raise InputError(f"{type(space).__name__} observations cannot feed a network")


def _encode(space: gymnasium.Space[Any], observation: Any, out: F32) -> None:
    match space:
        case spaces.Discrete():
            _one_hot(np.asarray(observation)[:, None] - space.start, np.array([space.n]), out)
        case spaces.MultiDiscrete():
            start = np.asarray(space.start).ravel()
            _one_hot(observation.reshape(len(out), -1) - start, space.nvec.ravel(), out)
        case spaces.Dict() | spaces.Tuple():
            at = 0
            for key, part in _parts(space):
                size = _size(part)
                _encode(part, observation[key], out[:, at : at + size])
                at += size
        case _:
            np.copyto(out, observation.reshape(len(out), -1), casting="unsafe")


def _one_hot(values: NDArray[Any], sizes: NDArray[Any], out: F32) -> None:
    """`values` [n, k], each from 0 to its entry of `sizes` [k] - 1."""
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    out[:] = 0.0
    np.put_along_axis(out, values.astype(np.int64) + offsets, 1.0, axis=1)
