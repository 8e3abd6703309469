"""The Pareto front and the volume it dominates.

Notation: n points, k objectives; `values` is [n, k], `maximize[j]` is the direction of
objective j. Inside this file every objective is minimized: directions are turned at the door.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweeper.report.metrics import value_of
from sweeper.store.rows import StudyRow, TrialRow

Floats = NDArray[np.float64]


def non_dominated(values: ArrayLike, maximize: Sequence[bool]) -> NDArray[np.bool_]:
    """Which points no other point beats: at least as good everywhere, better somewhere.

    values: [n, k]. Returns [n]. Equal points stand or fall together; a row with NaN is never
    on the front.
    """
    costs = _as_costs(values, maximize)
    known = ~np.isnan(costs).any(axis=1)
    points, inverse = np.unique(costs[known], axis=0, return_inverse=True)
    result = np.zeros(len(costs), dtype=np.bool_)
    result[known] = _front_of_sorted(points)[inverse.reshape(-1)]
    return result


def hypervolume(values: ArrayLike, reference: ArrayLike, maximize: Sequence[bool]) -> float:
    """Volume between the front and `reference`, exact; quick for 2 and 3 objectives.

    values: [n, k], reference: [k], in the units of the objectives. Points that do not beat
    the reference in every objective add nothing. (Zitzler & Thiele 1998.)
    """
    costs = _as_costs(values, maximize)
    corner = _as_costs(np.asarray(reference, dtype=np.float64)[None, :], maximize)[0]
    costs = costs[(costs < corner).all(axis=1)]  # False for NaN
    points = np.unique(costs, axis=0)
    return _volume(points[_front_of_sorted(points)], corner)


def front(trials: Sequence[TrialRow], objectives: Mapping[str, str]) -> tuple[TrialRow, ...]:
    """The non-dominated trials, best of the first objective first.

    `candidates` says which can stand on it; objectives: metric -> "maximize" | "minimize".
    """
    chosen_from = candidates(trials, objectives)
    if not chosen_from:
        return ()
    maximize = [direction == "maximize" for direction in objectives.values()]
    values = np.array(
        [[value_of(trial, metric) for metric in objectives] for trial in chosen_from],
        dtype=np.float64,
    )
    costs = _as_costs(values, maximize)
    chosen = np.flatnonzero(non_dominated(values, maximize))
    return tuple(chosen_from[i] for i in sorted(chosen, key=lambda i: tuple(costs[i])))


def study_front(
    study: StudyRow, trials: Sequence[TrialRow], objectives: Mapping[str, str] | None = None
) -> tuple[TrialRow, ...]:
    """The front of a study, by its own objectives unless others are given.

    Trials of another budget (a baseline may have one) are not compared with the rest.
    """
    return front([t for t in trials if has_study_budget(study, t)], objectives or study.objectives)


def has_study_budget(study: StudyRow, trial: TrialRow) -> bool:
    """Whether a trial trained as long as the study's latest version says."""
    return (trial.budget_seconds, trial.budget_env_steps) == (
        study.budget_seconds,
        study.budget_env_steps,
    )


def candidates(trials: Sequence[TrialRow], metrics: Iterable[str]) -> list[TrialRow]:
    """The trials that may stand on a front of these metrics if nothing beats them.

    They are COMPLETED, known to be feasible, and have a value for every metric. Contended
    ones, whose speed is too low, stand aside unless all are: a machine that is never quiet has
    a front too, marked for what it is.
    """
    wanted = tuple(metrics)
    able = [
        trial
        for trial in trials
        if trial.status == "COMPLETED"
        and trial.feasible is True
        and all(value_of(trial, metric) is not None for metric in wanted)
    ]
    return [trial for trial in able if not trial.contended] or able


def hypervolume_over_time(
    study: StudyRow, trials: Sequence[TrialRow]
) -> tuple[list[float], list[float]]:
    """Seconds since the first trial was asked, and the normalized hypervolume from then on."""
    ended = [(t.ended_at, t) for t in _candidates(study, trials) if t.ended_at]
    ended.sort(key=lambda pair: (pair[0], pair[1].number))
    if not ended:
        return [], []
    began = min(trial.asked_at for trial in trials)
    seconds, shares = [0.0], [0.0]
    for (ended_at, _), share in zip(ended, _growth(study, [t for _, t in ended]), strict=True):
        if share != shares[-1]:
            seconds.append((ended_at - began).total_seconds())
            shares.append(share)
    seconds.append((ended[-1][0] - began).total_seconds())
    shares.append(shares[-1])
    return seconds, shares


def hypervolume_over_trials(
    study: StudyRow, trials: Sequence[TrialRow]
) -> tuple[list[int], list[float]]:
    """Numbers of the trials that may stand on the front, and the normalized hypervolume of
    those up to each: what the search has made of its trials, however long they took."""
    done = sorted(_candidates(study, trials), key=lambda trial: trial.number)
    return [trial.number for trial in done], _growth(study, done)


def _candidates(study: StudyRow, trials: Sequence[TrialRow]) -> list[TrialRow]:
    return candidates([t for t in trials if has_study_budget(study, t)], study.objectives)


def _growth(study: StudyRow, done: Sequence[TrialRow]) -> list[float]:
    """The hypervolume after each trial, as a share of the box between the worst and the best
    value of each objective among all of them."""
    if not done:
        return []
    objectives = study.objectives
    maximize = [direction == "maximize" for direction in objectives.values()]
    values = np.array([[value_of(t, metric) for metric in objectives] for t in done], float)
    costs = np.where(maximize, -values, values)
    low, high = costs.min(axis=0), costs.max(axis=0)
    # A hair beyond the worst, so that a first trial that is best in one objective counts.
    unit = (costs - low) / np.where(high > low, high - low, 1.0) / 1.01
    minimize = [False] * len(maximize)
    reference = np.ones(len(maximize))
    shares: list[float] = []
    best = np.empty((0, len(maximize)))
    for point in unit:
        if not len(best) or not (best <= point).all(axis=1).any():
            best = np.vstack([best[~(point <= best).all(axis=1)], point])
            shares.append(hypervolume(best, reference, minimize))
        else:
            shares.append(shares[-1])
    return shares


def _as_costs(values: ArrayLike, maximize: Sequence[bool]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != len(maximize):
        raise ValueError(f"values must be [n, {len(maximize)}], got {list(array.shape)}")
    return np.where(np.asarray(maximize, dtype=np.bool_), -array, array)


def _front_of_sorted(points: Floats) -> NDArray[np.bool_]:
    """points: [n, k] distinct, in lexicographic order, so that none is beaten by a later one."""
    result = np.zeros(len(points), dtype=np.bool_)
    if points.shape[1] == 2 and len(points):
        best_before = np.minimum.accumulate(points[:, 1])
        result[0] = True
        result[1:] = points[1:, 1] < best_before[:-1]
        return result
    alive = np.arange(len(points))
    while alive.size:
        best, alive = alive[0], alive[1:]
        result[best] = True
        alive = alive[(points[alive] < points[best]).any(axis=1)]
    return result


def _volume(points: Floats, corner: Floats) -> float:
    """points: [n, k] mutually non-dominated, in lexicographic order, all below `corner`."""
    if not len(points):
        return 0.0
    if points.shape[1] == 1:
        return float(corner[0] - points[0, 0])
    if points.shape[1] == 2:
        widths = np.diff(points[:, 0], append=corner[0])
        return float(widths @ (corner[1] - points[:, 1]))
    # Slabs along the first objective: between two neighbours, the cross-section is what the
    # points so far dominate in the others.
    depths = np.diff(points[:, 0], append=corner[0])
    total = 0.0
    for i, depth in enumerate(depths):
        if depth > 0:
            section = np.unique(points[: i + 1, 1:], axis=0)
            total += float(depth) * _volume(section[_front_of_sorted(section)], corner[1:])
    return total
