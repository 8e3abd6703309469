"""What runs mean for their trial: feasible or not, and what the sampler hears."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from sweeper.core.records import RunResult, RunStatus
from sweeper.store.rows import RunRow, TrialRow
from sweeper.study.rebuild import PastTrial
from sweeper.study.spec import ConstraintSpec, Metric, StudySpec

MIN_UPDATES = 10
"""A run with fewer updates never learned; its speed owns no end of the front."""
UNMEASURED = 1e9
"""The violation of a constraint on a quantity that could not be measured."""

Constraints = Mapping[Metric, ConstraintSpec]
Run = RunResult | RunRow


class Verdict(NamedTuple):
    """What a trial's runs say about it."""

    feasible: bool
    """Whether it may stand on the front."""
    violations: dict[str, float]
    """Constraint -> how far it is violated; <= 0 is satisfied. Always the same keys."""


def verdict(runs: Sequence[Run], constraints: Constraints) -> Verdict:
    """The verdict on a trial from its tuning runs: those that say nothing about it (lost,
    interrupted, out of memory) do not count, the means of the others must satisfy every
    constraint, and one that failed is one too many."""
    telling = [run for run in runs if not RunStatus(run.status).is_retried]
    completed = [run for run in telling if run.status == RunStatus.COMPLETED]
    trusted = [run for run in completed if not run.contended] or completed
    found = violations(trusted or list(runs), constraints)
    sound = bool(completed) and len(completed) == len(telling)
    return Verdict(sound and all(v <= 0 for v in found.values()), found)


def violations(runs: Sequence[Run | TrialRow], constraints: Constraints) -> dict[str, float]:
    """Constraint -> how far the mean over the runs (or of a trial as stored) violates it."""
    found = {"updates.min": MIN_UPDATES - (_mean(runs, "updates") or 0.0)}
    for metric, bounds in constraints.items():
        value = _mean(runs, metric)
        if bounds.min is not None:
            found[f"{metric}.min"] = UNMEASURED if value is None else bounds.min - value
        if bounds.max is not None:
            found[f"{metric}.max"] = UNMEASURED if value is None else value - bounds.max
    return found


def past_trials(trials: Sequence[TrialRow], spec: StudySpec) -> list[PastTrial]:
    """A study's trials as the sampler hears of them.

    What is still to be run, or to be run again, is pending. Trials of another budget are
    left out, and the baseline, which may differ in what is not searched: neither compares.
    """
    return PastTrials(spec)(trials)


class PastTrials:
    """`past_trials`, asked again and again while a study grows."""

    def __init__(self, spec: StudySpec) -> None:
        self._spec = spec
        self._told: dict[int, tuple[TrialRow, PastTrial | None]] = {}

    def __call__(self, trials: Sequence[TrialRow]) -> list[PastTrial]:
        """Of each trial; a row that is known from before is not looked at again."""
        told: list[PastTrial] = []
        for trial in trials:
            row, past = self._told.get(trial.number, (None, None))
            if row is not trial:
                past = self._past(trial)
                self._told[trial.number] = trial, past
            if past is not None:
                told.append(past)
        return told

    def _past(self, trial: TrialRow) -> PastTrial | None:
        compares = trial.origin != "baseline" and has_budget(trial, self._spec)
        return _past(trial, self._spec) if compares else None


def has_budget(trial: TrialRow, spec: StudySpec) -> bool:
    """Whether a trial trains as long as the study's trials do."""
    budget = spec.trial.budget
    return (trial.budget_seconds, trial.budget_env_steps) == (budget.seconds, budget.env_steps)


def objectives_of(run: Run | TrialRow, spec: StudySpec) -> tuple[float, ...] | None:
    """The study's objectives of a run or trial, or None if one of them was not measured. A
    threshold that was never reached is censored at the budget."""
    values: list[float] = []
    for metric in spec.objectives:
        value: float | None = getattr(run, metric)
        if value is None and metric == "seconds_to_threshold":
            value = spec.trial.budget.seconds
        if value is None:
            return None
        values.append(value)
    return tuple(values)


def _past(trial: TrialRow, spec: StudySpec) -> PastTrial:
    status, params = RunStatus(trial.status), dict(trial.params)
    if not status.is_final or status.is_retried:
        return PastTrial(trial.number, params, "running")
    if status is RunStatus.PRUNED:
        return PastTrial(trial.number, params, "pruned")
    values = objectives_of(trial, spec)
    if status is not RunStatus.COMPLETED or values is None:
        return PastTrial(trial.number, params, "failed")
    found = violations([trial], spec.constraints)
    if trial.feasible is False and all(v <= 0 for v in found.values()):
        return PastTrial(trial.number, params, "failed")  # on some of its seeds
    return PastTrial(trial.number, params, "complete", values, found)


def _mean(runs: Sequence[Run | TrialRow], metric: str) -> float | None:
    values = [getattr(run, metric) for run in runs]
    return None if not values or None in values else fmean(values)
