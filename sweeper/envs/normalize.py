"""Running normalization of observations and rewards, over all environments together.

Moments are merged batch by batch (Chan, Golub & LeVeque 1979) in float64. With n values
seen so far, mean m and sum of squared deviations S, a batch x of b values gives, with
d = x - m, s = sum(d) and q = sum(d^2)::

    m' = m + s / (n + b)
    S' = S + q - s^2 / (n + b)

Deviations are taken from the running mean, so nothing cancels when it is far from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sweeper.core.errors import InputError

CLIP = 10.0
"""Normalized values are clipped to +- this."""
EPSILON = 1e-8
"""Added to variances."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """Of all values seen, per component."""

    count: int
    mean: Floats
    """[...] float64."""
    squares: Floats
    """[...] float64: sum of squared deviations from the mean."""

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Moments:
        """Of no values."""
        return cls(0, np.zeros(shape), np.zeros(shape))

    def merge(self, batch: NDArray[Any]) -> Moments:
        """With a batch [b, ...] of further values."""
        count = self.count + len(batch)
        mean = self.mean if self.count else batch[0].astype(np.float64)
        deviation = batch - mean
        total = np.add.reduce(deviation, axis=0)
        np.multiply(deviation, deviation, out=deviation)
        squares = self.squares + (np.add.reduce(deviation, axis=0) - total * total / count)
        return Moments(count, mean + total / count, squares)

    @property
    def variance(self) -> Floats:
        """[...] float64, of the population; 1 while fewer than two values have been seen."""
        if self.count < 2:
            return np.ones_like(self.squares)
        return self.squares / self.count


class ObservationNormalizer:
    """Observations shifted and scaled to mean 0 and variance 1, clipped to +-10.

    `update` learns, `normalize` only applies: evaluation and final observations use the
    latter alone. Raises InputError for an observation space that is not a Box.
    """

    def __init__(self, space: gymnasium.Space[Any], moments: Moments | None = None) -> None:
        if not isinstance(space, gymnasium.spaces.Box):
            raise InputError(f"only Box observations can be normalized, not {type(space).__name__}")
        self.moments = Moments.zero(space.shape) if moments is None else moments

    @property
    def moments(self) -> Moments:
        """The statistics: all of this object's state; set them to restore it."""
        return self._moments

    @moments.setter
    def moments(self, moments: Moments) -> None:
        self._moments = moments
        self._scale = 1.0 / np.sqrt(moments.variance + EPSILON)

    def update(self, observation: NDArray[Any]) -> None:
        """Add a batch [n, ...] to the statistics."""
        self.moments = self._moments.merge(observation)

    def normalize(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        """[n, ...] float32, by the statistics as they stand; a new array."""
        normal = observation - self._moments.mean
        normal *= self._scale
        np.maximum(normal, -CLIP, out=normal)
        np.minimum(normal, CLIP, out=normal)
        return normal.astype(np.float32)


@dataclass(frozen=True, slots=True)
class RewardState:
    """What a `RewardNormalizer` has to remember."""

    moments: Moments
    """Of the discounted return; scalar."""
    discounted_return: Floats
    """[N] float64, so far in each environment's episode."""


class RewardNormalizer:
    """Rewards divided by the running deviation of the discounted return, clipped to +-10.

    The return R = gamma R + r of an environment starts over when its episode ends, whether
    terminated or truncated.
    """

    def __init__(self, n_envs: int, gamma: float) -> None:
        self._gamma = gamma
        self._moments = Moments.zero(())
        self._return = np.zeros(n_envs)

    @property
    def state(self) -> RewardState:
        """A copy of everything; set it to restore."""
        return RewardState(self._moments, self._return.copy())

    @state.setter
    def state(self, state: RewardState) -> None:
        self._moments = state.moments
        self._return = state.discounted_return.copy()

    def __call__(
        self,
        reward: NDArray[Any],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        rows: slice = slice(None),
    ) -> NDArray[np.float32]:
        """Learn from one step of the environments `rows`, and return its rewards normalized.

        reward: [n] float; terminated, truncated: [n] bool; returns a new [n] float32.
        """
        running = self._return[rows]
        running *= self._gamma
        running += reward
        self._moments = self._moments.merge(running)
        scale = 1.0 / np.sqrt(self._moments.variance + EPSILON)
        running[terminated | truncated] = 0.0
        return np.clip(reward * scale, -CLIP, CLIP).astype(np.float32)
