"""On what hardware the trials were measured that the sampler learns from.

Speeds of different machines, and returns after so many seconds of them, are told to it as they
are. A factor for each class of hardware would be a guess that looks like a measurement: how much
faster a machine is depends on the configuration (its workers, its threads, the size of its
network), hardly any configuration runs on two of them, and the medians of two machines differ by
what was asked for while each was there. So nothing is corrected, and the study says what it is.
"""

from __future__ import annotations

import logging

from sqlalchemy import Engine

from sweeper.core.records import RunResult, RunStatus
from sweeper.report.hardware import hardware_of
from sweeper.store import launches, queries
from sweeper.store.rows import TrialRow
from sweeper.store.store import Store
from sweeper.study.outcome import has_budget
from sweeper.study.recorder import LiveRun
from sweeper.study.spec import StudySpec

logger = logging.getLogger(__name__)

EVENT = "mixed_hardware"
_TIMED = {"steps_per_second", "seconds_to_threshold", "core_seconds"}


def depends_on_hardware(spec: StudySpec) -> bool:
    """Whether a faster machine gives the same configuration other objectives."""
    return spec.trial.budget.seconds is not None or not _TIMED.isdisjoint(spec.objectives)


class Machines:
    """The hardware classes of one study's search, told once when they are several: to the user
    in each launch, and as an event unless there is one of these classes."""

    def __init__(self, store: Store, reader: Engine, study_id: int, spec: StudySpec) -> None:
        self._store = store
        self._reader = reader
        self._study_id = study_id
        self._spec = spec
        self._classes: set[str] = set()
        self._told: set[str] = set()

    def recall(self, trials: dict[int, TrialRow]) -> None:
        """What earlier launches measured on; `trials` by number."""
        hardware = hardware_of(queries.study_runs(self._reader, self._study_id))
        for trial in filter(self._is_heard, trials.values()):
            self._classes |= hardware.get(trial.trial_id, frozenset())

    def see(self, trial: TrialRow, live: LiveRun, result: RunResult) -> None:
        """A run of the trial has ended."""
        measures = result.status is RunStatus.COMPLETED and live.seed_kind == "tuning"
        if measures and live.host is not None and self._is_heard(trial):
            self._classes.add(live.host.hardware_class)

    def tell(self) -> None:
        """Say so if they are several by now. Raises DatabaseAwayError; call it again then."""
        if len(self._classes) < 2 or self._classes == self._told:
            return
        if depends_on_hardware(self._spec):
            listed = ", ".join(sorted(self._classes))
            detail = f"the sampler takes trials of different hardware as if it were one: {listed}"
            if detail not in launches.event_details(self._reader, self._study_id, EVENT):
                self._store.add_event(EVENT, study_id=self._study_id, detail=detail)
            logger.warning("%s; see docs/cluster.md", detail)
        self._told = set(self._classes)

    def _is_heard(self, trial: TrialRow) -> bool:
        return trial.origin != "baseline" and has_budget(trial, self._spec)
