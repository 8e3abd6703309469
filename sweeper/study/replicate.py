"""Which trial has earned another seed.

Repeating every trial wastes most of the repeats on trials that are clearly beaten; repeating
none leaves lucky ones on the front, each hiding the better ones that it seems to beat. So a
re-run goes to the trial by whose next run the front may change most: by how much its hypervolume
is expected to change when that trial's mean moves as far as one more run may move it.

(Not to the trial of which it is least certain whether it belongs on the front: the fastest of all
belongs there whatever it returns, and its lucky return would hide the others for ever.)

Notation: n configurations, k objectives. A configuration that ran m times has its mean from
values with variance v around the true one; the mean of m + 1 lies around it with v / (m (m + 1)).
v is pooled over all configurations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweeper.report.pareto import hypervolume, non_dominated
from sweeper.study.spec import ReplicateSpec

Floats = NDArray[np.float64]

MIN_TRIALS = 4
"""Finished trials below which there is no front to speak of."""
LEAST_CHANGE = 0.002
"""Expected change, as a share of the box that all trials span, that is worth no run."""
FARTHEST = 2.0
"""Deviations by which a mean may move for the better, when it is asked who can reach the front."""
PRIOR_RUNS, PRIOR_SHARE = 2.0, 0.1
"""Before much has run twice: a deviation of a tenth of the spread between configurations (their
middle half) is supposed, and weighs as much as so many runs."""
_HALF = np.random.default_rng(0).standard_normal((12, 8))
MOVES = np.vstack((_HALF, -_HALF))
"""Standard normal, [draws, k up to 8], the same for each trial so that they compare."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finished, feasible trial that a re-run may be spent on."""

    number: int
    runs: tuple[tuple[float, ...], ...]
    """The objectives of each of its completed runs, on scales on which the noise of all trials
    is alike."""
    running: int = 0
    """Further runs of it that are under way or waiting."""


def next_replicate(
    candidates: Sequence[Candidate], maximize: Sequence[bool], spec: ReplicateSpec
) -> int | None:
    """Number of the trial to run again, or None if no re-run would change the front."""
    if len(candidates) < MIN_TRIALS:
        return None
    best, chosen = LEAST_CHANGE, None
    changes = expected_changes([c.runs for c in candidates], maximize)
    for candidate, change in zip(candidates, changes.tolist(), strict=True):
        is_free = not candidate.running and len(candidate.runs) < spec.max_seeds
        if is_free and change > best:
            best, chosen = change, candidate.number
    return chosen


def expected_changes(runs: Sequence[ArrayLike], maximize: Sequence[bool]) -> Floats:
    """How much the front's hypervolume is expected to change by one more run of each
    configuration, [n], as a share of the box between the worst and the best mean of each objective.

    runs[i]: [m_i, k], the values of configuration i's runs.
    """
    groups = [np.asarray(values, dtype=np.float64) for values in runs]
    sizes = np.array([[len(values)] for values in groups])
    means = np.array([values.mean(axis=0) for values in groups])
    gains = np.where(np.asarray(maximize, dtype=np.bool_), means, -means)
    low, high = gains.min(axis=0), gains.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    unit = (gains - low) / span
    moves = np.sqrt(seed_variance(groups) / (sizes * (sizes + 1))) / span  # [n, k]

    up = [True] * unit.shape[1]
    corner = np.full(unit.shape[1], -0.01)  # so that the worst of one objective counts
    on_front = non_dominated(unit, up)
    front = unit[on_front]
    volume = hypervolume(front, corner, up)
    changes = np.zeros(len(unit))
    for i in np.flatnonzero(on_front | ~_is_below(unit + FARTHEST * moves, front)):
        others, without = front, volume
        if on_front[i]:  # whom it hides would come to light without it
            others = np.delete(unit, i, axis=0)
            others = others[non_dominated(others, up)]
            without = hypervolume(others, corner, up)
        moved = unit[i] + moves[i] * MOVES[:, : unit.shape[1]]
        volumes = np.full(len(moved), without)
        for j in np.flatnonzero(~_is_below(moved, others)):
            volumes[j] = hypervolume(np.vstack((others, moved[j])), corner, up)
        changes[i] = np.abs(volumes - volume).mean()
    return changes


def _is_below(points: Floats, front: Floats) -> NDArray[np.bool_]:
    """Which of points [m, k] some point of the front [f, k] is as good as in everything."""
    as_good = np.all(front[None, :, :] >= points[:, None, :], axis=2)  # [m, f]
    return np.asarray(np.any(as_good, axis=1))


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
