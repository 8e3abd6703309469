"""What a run's result means for its study: feasible or not, and what the sampler hears."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeper.core.records import RunResult, RunStatus
from sweeper.store.queries import TrialRow
from sweeper.study.sampler import PastTrial
from sweeper.study.spec import ConstraintSpec, Metric, StudySpec

MIN_UPDATES = 10
"""A run with fewer updates never learned; its speed owns no end of the front."""


def violations(result: RunResult, constraints: Mapping[Metric, ConstraintSpec]) -> dict[str, float]:
    """Constraint -> how far it is violated; <= 0 is satisfied. Always the same keys.

    A quantity that could not be measured violates by infinity's stand-in, 1e9.
    """
    found = {"updates.min": float(MIN_UPDATES - result.updates)}
    for metric, bounds in constraints.items():
        value = getattr(result, metric)
        if bounds.min is not None:
            found[f"{metric}.min"] = 1e9 if value is None else bounds.min - value
        if bounds.max is not None:
            found[f"{metric}.max"] = 1e9 if value is None else value - bounds.max
    return found


def is_feasible(result: RunResult, found: Mapping[str, float]) -> bool:
    """Whether a run's trial may stand on the front."""
    return result.status is RunStatus.COMPLETED and all(v <= 0 for v in found.values())


def past_trials(trials: Sequence[TrialRow], spec: StudySpec) -> list[PastTrial]:
    """A study's trials as the sampler hears of them.

    What is still to be run, or to be run again, is pending. Trials of another budget are
    left out, and the baseline, which may differ in what is not searched: neither compares.
    """
    budget = spec.trial.budget
    return [
        _past(trial, spec)
        for trial in trials
        if trial.origin != "baseline"
        and (trial.budget_seconds, trial.budget_env_steps) == (budget.seconds, budget.env_steps)
    ]


def _past(trial: TrialRow, spec: StudySpec) -> PastTrial:
    status, params = RunStatus(trial.status), dict(trial.params)
    if not status.is_final or status.is_retried:
        return PastTrial(trial.number, params, "running")
    values = [_objective(trial, metric) for metric in spec.objectives]
    known = tuple(value for value in values if value is not None)
    if status is not RunStatus.COMPLETED or len(known) < len(values):
        return PastTrial(trial.number, params, "failed")
    return PastTrial(trial.number, params, "complete", values=known, feasible=bool(trial.feasible))


def _objective(trial: TrialRow, metric: str) -> float | None:
    value: float | None = getattr(trial, metric)
    if value is None and metric == "seconds_to_threshold":
        return trial.budget_seconds  # never reached: censored at the budget
    return value
