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

from sweeper.report.chance import Floats, probability_non_dominated
from sweeper.report.metrics import METRICS, value_of
from sweeper.report.pareto import candidates, has_study_budget
from sweeper.report.statistics import Interval, bootstrap
from sweeper.store.rows import SlotRow, StudyRow, TrialRow


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
    means = np.column_stack(
        [_scaled([value_of(trial, m) or 0.0 for trial in rows], m) for m in objectives]
    )
    errors = np.array(known) / np.sqrt([[max(1, trial.n_runs)] for trial in rows])
    maximize = [direction == "maximize" for direction in objectives.values()]
    found = probability_non_dominated(means, errors, maximize)
    return {trial.number: float(p) for trial, p in zip(rows, found, strict=True) if p}


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
