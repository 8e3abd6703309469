"""How sure a study may be of its front: intervals over seeds, and P(non-dominated).

Most trials have one run, which says nothing of its own noise. So the noise between seeds is
pooled over the whole study: the variance between the runs of one trial, averaged over all
trials that have several, weighted by their degrees of freedom. Where a metric is `relative`
(a speed), that is done on its logarithm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sweeper.report.metrics import METRICS, value_of
from sweeper.report.pareto import candidates, has_study_budget, non_dominated
from sweeper.report.statistics import Interval, bootstrap
from sweeper.store.queries import SlotRow, StudyRow, TrialRow

DRAWS = 400
_SURELY = 4.0
"""Standard errors by which a trial that is never drawn onto the front is beaten."""

Floats = NDArray[np.float64]


def runs_by_trial(runs: Iterable[SlotRow], seed_kind: str = "tuning") -> dict[int, list[SlotRow]]:
    """trial_id -> its COMPLETED runs with that kind of seed."""
    result: dict[int, list[SlotRow]] = defaultdict(list)
    for run in runs:
        if run.status == "COMPLETED" and run.seed_kind == seed_kind:
            result[run.trial_id].append(run)
    return dict(result)


def seed_deviation(of_trial: Mapping[int, Sequence[SlotRow]], metric: str) -> float | None:
    """Pooled standard deviation of a metric between the runs of one trial, in its own unit or,
    if it is `relative`, in natural-log units. None where no trial has two runs.
    """
    squares, freedom = 0.0, 0
    for runs in of_trial.values():
        values = _scaled([v for run in runs if (v := value_of(run, metric)) is not None], metric)
        if len(values) > 1:
            squares += float(((values - values.mean()) ** 2).sum())
            freedom += len(values) - 1
    return float(np.sqrt(squares / freedom)) if freedom else None


def front_probabilities(
    study: StudyRow,
    trials: Sequence[TrialRow],
    runs: Sequence[SlotRow],
    objectives: Mapping[str, str] | None = None,
) -> dict[int, float] | None:
    """Trial number -> probability that no other trial truly dominates it.

    Each trial's true value is drawn around its mean, with the pooled deviation between seeds
    over the root of its number of runs; the share of draws in which it stands on the front is
    the probability. It is 0 for trials that are left out of the answer. None where no trial
    has been run twice: then nothing is known of the noise.
    """
    objectives = objectives or study.objectives
    of_trial = runs_by_trial(runs)
    deviations = [seed_deviation(of_trial, metric) for metric in objectives]
    known = [0.0 if d is None else d for d in deviations]
    if not any(known):
        return None
    rows = candidates([t for t in trials if has_study_budget(study, t)], objectives)
    if not rows:
        return {}
    costs = np.column_stack(
        [
            _scaled([value_of(trial, metric) or 0.0 for trial in rows], metric)
            * (-1 if direction == "maximize" else 1)
            for metric, direction in objectives.items()
        ]
    )
    errors = np.array(known) / np.sqrt([[max(1, trial.n_runs)] for trial in rows])  # [n, k]
    kept = _contenders(costs, errors)
    minimize = [False] * len(objectives)
    draw = np.random.default_rng(0)
    hits = np.zeros(len(kept))
    for _ in range(DRAWS):
        noise = draw.standard_normal((len(kept), len(objectives)))
        hits += non_dominated(costs[kept] + errors[kept] * noise, minimize)
    return {rows[i].number: float(h / DRAWS) for i, h in zip(kept, hits, strict=True) if h}


def intervals(runs: Sequence[SlotRow], metrics: Iterable[str]) -> dict[str, Interval]:
    """Metric -> mean over these runs with its 95% bootstrap interval; absent for one run."""
    result = {}
    for metric in metrics:
        values = [v for run in runs if (v := value_of(run, metric)) is not None]
        if (interval := bootstrap([values])) is not None:
            result[metric] = interval
    return result


def _scaled(values: Sequence[float], metric: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return np.log(np.maximum(array, 1e-12)) if METRICS[metric].relative else array


def _contenders(costs: Floats, errors: Floats) -> NDArray[np.intp]:
    """Rows that chance could put on the front; the rest need not be drawn."""
    hopeful, doubtful = costs - _SURELY * errors, costs + _SURELY * errors
    alive = np.ones(len(costs), dtype=np.bool_)
    for row in np.flatnonzero(non_dominated(doubtful, [False] * costs.shape[1])):
        beaten = (doubtful[row] <= hopeful).all(axis=1) & (doubtful[row] < hopeful).any(axis=1)
        alive &= ~beaten
    return np.flatnonzero(alive)
