"""Why a trial may not stand on the front, in words."""

from __future__ import annotations

from collections.abc import Mapping

from sweeper.report.metrics import METRICS, format_metric, value_of
from sweeper.store.rows import StudyRow, TrialRow

UNTRAINED, UPDATES = "final_return.untrained", "updates.min"
"""Requirements that every trial has, unless its study says otherwise."""
_SIDES = {"min": "is below", "max": "is above"}


def shortfalls(study: StudyRow, trial: TrialRow, violations: Mapping[str, float]) -> list[str]:
    """A sentence for each requirement that the means over the trial's runs violate.

    violations: requirement -> by how much, as stored; satisfied from 0 down.
    """
    found = [_sentence(study, trial, name, by) for name, by in violations.items() if by > 0]
    if not found and trial.status == "COMPLETED" and trial.feasible is False:
        return ["It failed with another of its seeds."]
    return found


def _sentence(study: StudyRow, trial: TrialRow, requirement: str, by: float) -> str:
    metric, _, side = requirement.rpartition(".")
    value = value_of(trial, metric)
    if value is None:
        return f"Its {METRICS[metric].title} was not measured."
    written = format_metric(metric, value)
    if requirement == UPDATES:
        return f"It made {written} updates, fewer than {value + by:.0f}: it hardly learned."
    if requirement == UNTRAINED:
        limit = format_metric(metric, study.untrained_return)
        return f"Its final return of {written} does not beat the untrained policy's {limit}."
    limit = format_metric(metric, study.constraints.get(metric, {}).get(side))
    return f"Its {METRICS[metric].title} of {written} {_SIDES[side]} the study's {limit}."
