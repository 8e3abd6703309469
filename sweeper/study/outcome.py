"""What runs mean for their trial: feasible or not, and what the sampler hears."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple, Self

from sweeper.core.records import RunResult, RunStatus
from sweeper.store.rows import RunRow, TrialRow
from sweeper.study.rebuild import PastTrial
from sweeper.study.spec import ConstraintSpec, Metric, StudySpec

MIN_UPDATES = 10
"""A run with fewer updates never learned."""
UNMEASURED = 1e9
"""The violation of a constraint on a quantity that could not be measured."""

Constraints = Mapping[Metric, ConstraintSpec]
Run = RunResult | RunRow


@dataclass(frozen=True, slots=True)
class Requirements:
    """What the means over a trial's runs must satisfy for it to stand on the front."""

    constraints: Constraints = field(default_factory=dict)
    must_learn: bool = True
    """Whether a trial must have been trained, and be the better for it: otherwise the speed of
    one that never learned would own an end of the front."""
    untrained_return: float | None = None
    """What it must beat then; None while that is not measured."""

    @classmethod
    def of(cls, spec: StudySpec, untrained_return: float | None = None) -> Self:
        """A study's."""
        return cls(spec.constraints, spec.must_learn, untrained_return)


class Verdict(NamedTuple):
    """What a trial's runs say about it."""

    feasible: bool
    """Whether it may stand on the front."""
    violations: dict[str, float]
    """Constraint -> how far it is violated; <= 0 is satisfied. Always the same keys."""


def verdict(runs: Sequence[Run], requirements: Requirements) -> Verdict:
    """The verdict on a trial from its tuning runs: those that say nothing about it (lost,
    interrupted, out of memory) do not count, the means of the others must satisfy every
    requirement, and one that failed is one too many."""
    telling = [run for run in runs if not RunStatus(run.status).is_retried]
    completed = [run for run in telling if run.status == RunStatus.COMPLETED]
    trusted = [run for run in completed if not run.contended] or completed
    found = violations(trusted or list(runs), requirements)
    sound = bool(completed) and len(completed) == len(telling)
    return Verdict(sound and all(v <= 0 for v in found.values()), found)


def violations(runs: Sequence[Run | TrialRow], requirements: Requirements) -> dict[str, float]:
    """Requirement -> how far the mean over the runs (or of a trial as stored) violates it."""
    found: dict[str, float] = {}
    if requirements.must_learn:
        found["updates.min"] = MIN_UPDATES - (_mean(runs, "updates") or 0.0)
        found["final_return.untrained"] = _untrained(_mean(runs, "final_return"), requirements)
    for metric, bounds in requirements.constraints.items():
        value = _mean(runs, metric)
        if bounds.min is not None:
            found[f"{metric}.min"] = UNMEASURED if value is None else bounds.min - value
        if bounds.max is not None:
            found[f"{metric}.max"] = UNMEASURED if value is None else value - bounds.max
    return found


def _untrained(final_return: float | None, requirements: Requirements) -> float:
    """How far a return is from beating the untrained policy's; as good is not better."""
    if requirements.untrained_return is None:
        return 0.0
    if final_return is None:
        return UNMEASURED
    return math.nextafter(requirements.untrained_return, math.inf) - final_return


def past_trials(trials: Sequence[TrialRow], spec: StudySpec) -> list[PastTrial]:
    """A study's trials as the sampler hears of them.

    What is still to be run, or to be run again, is pending. Trials of another budget are
    left out, and the baseline, which may differ in what is not searched: neither compares.
    """
    return PastTrials(spec)(trials, Requirements.of(spec))


class PastTrials:
    """`past_trials`, asked again and again while a study grows."""

    def __init__(self, spec: StudySpec) -> None:
        self._spec = spec
        self._requirements = Requirements.of(spec)
        self._told: dict[int, tuple[TrialRow, PastTrial | None]] = {}

    def __call__(self, trials: Sequence[TrialRow], requirements: Requirements) -> list[PastTrial]:
        """Of each trial; a row that is known from before is not looked at again."""
        if requirements != self._requirements:
            self._requirements = requirements
            self._told.clear()
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
        return _past(trial, self._spec, self._requirements) if compares else None


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


def _past(trial: TrialRow, spec: StudySpec, requirements: Requirements) -> PastTrial:
    status, params = RunStatus(trial.status), dict(trial.params)
    if not status.is_final or status.is_retried:
        return PastTrial(trial.number, params, "running")
    if status is RunStatus.PRUNED:
        return PastTrial(trial.number, params, "pruned")
    values = objectives_of(trial, spec)
    if status is not RunStatus.COMPLETED or values is None:
        return PastTrial(trial.number, params, "failed")
    found = violations([trial], requirements)
    if trial.feasible is False and all(v <= 0 for v in found.values()):
        return PastTrial(trial.number, params, "failed")  # on some of its seeds
    return PastTrial(trial.number, params, "complete", values, found)


def _mean(runs: Sequence[Run | TrialRow], metric: str) -> float | None:
    values = [getattr(run, metric) for run in runs]
    return None if not values or None in values else fmean(values)
