"""Location and uncertainty over seeds and episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Reduces the last axis: [..., n] -> [...]."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A statistic with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


def mean(values: ArrayLike) -> NDArray[np.float64]:
    """Arithmetic mean over the last axis."""
    return np.asarray(np.mean(np.asarray(values, dtype=np.float64), axis=-1))


def interquartile_mean(values: ArrayLike) -> NDArray[np.float64]:
    """Mean of the middle half over the last axis, n // 4 values cut from either end.

    Less noisy than the median, less swayed by one lucky seed than the mean (Agarwal et al.
    2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice").
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    n = ordered.shape[-1]
    cut = n // 4
    return np.asarray(np.mean(ordered[..., cut : n - cut], axis=-1))


def bootstrap(
    strata: Sequence[ArrayLike],
    statistic: Statistic = mean,
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> Interval | None:
    """The statistic of all values together, with its percentile bootstrap 95% interval.

    strata: each [n_i], resampled with replacement within itself (the episodes of one run, or
    the seeds of one environment, stay together). None where there are fewer than two values:
    one draw is no interval.
    """
    groups = [np.asarray(values, dtype=np.float64) for values in strata if np.size(values)]
    pooled = np.concatenate(groups) if groups else np.empty(0)
    if pooled.size < 2:
        return None
    random = np.random.default_rng(seed)
    drawn = np.concatenate(
        [group[random.integers(group.size, size=(resamples, group.size))] for group in groups],
        axis=1,
    )
    low, high = np.quantile(statistic(drawn), (0.025, 0.975))
    return Interval(float(statistic(pooled)), float(low), float(high))
