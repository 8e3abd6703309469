"""How likely it is that a configuration belongs on the front, from few and noisy runs.

Notation: n configurations, k objectives; `runs[i]` is [n_i, k], the values of configuration
i's runs, which differ in their seeds only. Their mean is taken as normal around the true value,
with the variance between seeds that all configurations share / n_i.

(`report.uncertainty` answers the same for readers, from what was measured alone; here a
decision is due before anything has run twice, so a guess of the noise comes first.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweeper.report.pareto import non_dominated

Floats = NDArray[np.float64]

PRIOR_RUNS, PRIOR_SHARE = 2.0, 0.1
"""The guess: a deviation of a tenth of the spread between configurations (their middle half);
and how many runs of evidence weigh as much."""
CERTAIN = 4.0
"""Standard errors beyond which nothing is drawn: a point that far behind has probability 0."""


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
    runs: Sequence[ArrayLike], maximize: Sequence[bool], *, draws: int = 400, seed: int = 0
) -> Floats:
    """Share of draws of the true values in which a configuration is not dominated, [n]."""
    if not len(runs):
        return np.empty(0)
    groups = [np.asarray(values, dtype=np.float64) for values in runs]
    means = np.array([values.mean(axis=0) for values in groups])
    sizes = np.array([[len(values)] for values in groups])
    errors = np.sqrt(seed_variance(groups) / sizes)  # [n, k]
    plausible = np.flatnonzero(_may_stand(means, errors, maximize))
    random = np.random.default_rng(seed)
    hits = np.zeros(len(groups))
    for _ in range(draws):
        noise = errors[plausible] * random.standard_normal((plausible.size, means.shape[1]))
        hits[plausible] += non_dominated(means[plausible] + noise, maximize)
    return hits / draws


def _may_stand(means: Floats, errors: Floats, maximize: Sequence[bool]) -> NDArray[np.bool_]:
    """Whether a configuration at its best is not dominated by any at its worst, [n]."""
    signs = np.where(np.asarray(maximize, dtype=np.bool_), 1.0, -1.0)
    worst = signs * means - CERTAIN * errors
    best = signs * means + CERTAIN * errors
    surest = worst[non_dominated(worst, [True] * means.shape[1])]
    return ~np.array([(surest > point).all(axis=1).any() for point in best])
