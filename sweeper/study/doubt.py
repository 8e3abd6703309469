"""How likely it is that a configuration belongs on the front, from few and noisy runs.

Notation: n configurations, k objectives; `runs[i]` is [n_i, k], the values of configuration
i's runs, which differ in their seeds only. Their mean is taken as normal around the true value,
with the variance between seeds that all configurations share / n_i.

(`report.uncertainty` answers for readers, from the noise that was measured and nothing else;
here a decision is due before anything has run twice, so a guess of it comes first.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sweeper.report.chance import DRAWS, Floats, probability_non_dominated

PRIOR_RUNS, PRIOR_SHARE = 2.0, 0.1
"""The guess: a deviation of a tenth of the spread between configurations (their middle half);
and how many runs of evidence weigh as much."""


def seed_variance(runs: Sequence[ArrayLike]) -> Floats:
    """Variance between seeds, pooled over the configurations, [k]; shrunk to a guess while few
    configurations have run twice."""
    groups = [np.asarray(values, dtype=np.float64) for values in runs]
    means = np.array([values.mean(axis=0) for values in groups])
    low, high = np.quantile(means, (0.25, 0.75), axis=0)
    guess = (PRIOR_SHARE * (high - low)) ** 2
    squares = sum(((values - values.mean(axis=0)) ** 2).sum(axis=0) for values in groups)
    freedom = sum(len(values) - 1 for values in groups)
    return np.asarray((PRIOR_RUNS * guess + squares) / (PRIOR_RUNS + freedom))


def probability_on_front(
    runs: Sequence[ArrayLike], maximize: Sequence[bool], *, draws: int = DRAWS, seed: int = 0
) -> Floats:
    """Share of draws of the true values in which a configuration is not dominated, [n]."""
    if not len(runs):
        return np.empty(0)
    groups = [np.asarray(values, dtype=np.float64) for values in runs]
    means = np.array([values.mean(axis=0) for values in groups])
    sizes = np.array([[len(values)] for values in groups])
    errors = np.sqrt(seed_variance(groups) / sizes)  # [n, k]
    return probability_non_dominated(means, errors, maximize, draws=draws, seed=seed)
