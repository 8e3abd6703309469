"""The probability of being non-dominated, where objectives are known up to a standard error.

Notation: n configurations, k objectives; means and errors are [n, k]. The true value of a
configuration is taken as normal around its mean, independent of all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweeper.report.pareto import non_dominated

DRAWS = 400
CERTAIN = 4.0
"""Standard errors beyond which nothing is drawn: a point that far behind has probability 0."""

Floats = NDArray[np.float64]


def probability_non_dominated(
    means: Floats, errors: Floats, maximize: Sequence[bool], *, draws: int = DRAWS, seed: int = 0
) -> Floats:
    """Share of draws of the true values in which a configuration is not dominated, [n]."""
    possible = _possible(means, errors, maximize)
    random = np.random.default_rng(seed)
    hits = np.zeros(len(means))
    for _ in range(draws):
        noise = errors[possible] * random.standard_normal((possible.size, means.shape[1]))
        hits[possible] += non_dominated(means[possible] + noise, maximize)
    return hits / draws


def _possible(means: Floats, errors: Floats, maximize: Sequence[bool]) -> NDArray[np.intp]:
    """Indices of what, at its best, is not dominated by anything at its worst."""
    gains = np.where(np.asarray(maximize, dtype=np.bool_), 1.0, -1.0) * means
    best, worst = gains + CERTAIN * errors, gains - CERTAIN * errors
    alive = np.ones(len(gains), dtype=np.bool_)
    for surest in worst[non_dominated(worst, [True] * gains.shape[1])]:
        alive &= ~((surest >= best).all(axis=1) & (surest > best).any(axis=1))
    return np.flatnonzero(alive)
