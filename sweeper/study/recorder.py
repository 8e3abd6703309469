"""From a job to a row: starts a run, carries what it says to the store, judges its trial."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Engine

from sweeper.core.records import (
    Evaluation,
    HostRecord,
    Measurement,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
    WaitingForCores,
)
from sweeper.store import queries
from sweeper.store.rows import RunRow, TrialRow
from sweeper.store.store import Store
from sweeper.study.outcome import Constraints, verdict, violations
from sweeper.trial.diagnose import diagnose
from sweeper.trial.spec import TrialSpec

EVENTS = {
    "first": "started",
    "replicate": "replicated",
    "retry": "retried",
    "confirm": "confirming",
}
"""Kind of run -> the event that its start is."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run that is to be made."""

    trial_id: int
    number: int
    """Its trial's."""
    spec: TrialSpec
    kind: str
    attempt: int
    seed_kind: str = "tuning"
    why: str | None = None
    """What the event of its start says about it."""


@dataclass(slots=True)
class LiveRun:
    """A run in progress, as the launcher knows it."""

    run_id: int
    trial_id: int
    number: int
    spec: TrialSpec
    kind: str
    attempt: int
    seed_kind: str
    rung: int | None = None
    """The rung at which it was asked to end."""
    waiting_for: str | None = None
    """Who holds the cores that it cannot begin without."""
    curve: list[Measurement] = field(default_factory=list)
    host: HostRecord | None = None
    unwritten: list[Measurement] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)

    @property
    def latest(self) -> Measurement | None:
        """The last measurement so far."""
        return self.curve[-1] if self.curve else None

    def again(self, why: str | None = None) -> Job:
        """The next attempt at the same run."""
        attempt = self.attempt + 1
        return Job(self.trial_id, self.number, self.spec, "retry", attempt, self.seed_kind, why)


class Recorder:
    """Writes the runs of one study."""

    def __init__(
        self, store: Store, reader: Engine, study_id: int, constraints: Constraints
    ) -> None:
        self._store = store
        self._reader = reader
        self._study_id = study_id
        self._constraints = constraints

    def start(self, job: Job) -> LiveRun:
        """A row for the run, RUNNING from now on."""
        run_id = self._store.add_run(
            job.trial_id,
            kind=job.kind,
            attempt=job.attempt,
            seed=job.spec.seed,
            seed_kind=job.seed_kind,
            host=None,
            budget=job.spec.budget,
        )
        self._store.add_event(
            EVENTS[job.kind],
            study_id=self._study_id,
            trial_id=job.trial_id,
            run_id=run_id,
            detail=job.why,
        )
        return LiveRun(
            run_id, job.trial_id, job.number, job.spec, job.kind, job.attempt, job.seed_kind
        )

    def take(self, live: LiveRun, event: TrialEvent) -> None:
        """Note an event of a run; the last one is written at once, with all before it."""
        match event:
            case WaitingForCores():
                live.waiting_for = event.reason
            case TrainingStarted():
                live.host, live.waiting_for = event.host, None
            case Measurement():
                live.curve.append(event)
                live.unwritten.append(event)
            case Evaluation():
                live.evaluations.append(event)
            case RunResult():
                self._finish(live, event)

    def flush(self, live: LiveRun) -> None:
        """Write the measurements that are not yet written."""
        self._store.add_measurements(live.run_id, live.unwritten)
        live.unwritten.clear()

    def judge(self, trial: TrialRow) -> None:
        """Judge a completed trial by the constraints as they are now."""
        satisfied = all(v <= 0 for v in violations([trial], self._constraints).values())
        if satisfied == trial.feasible:
            return
        feasible, found = verdict(self._ended(trial.trial_id, "tuning"), self._constraints)
        if feasible != trial.feasible:  # else one of its seeds failed
            self._store.judge_trial(
                self._study_id, trial.trial_id, feasible=feasible, violations=found
            )

    def _ended(self, trial_id: int, seed_kind: str) -> list[RunRow]:
        """What has ended of a trial; what failed only where it was not tried again."""
        runs = [run for run in queries.runs(self._reader, trial_id) if run.seed_kind == seed_kind]
        last = {run.seed: run.run_id for run in runs}
        return [
            run
            for run in runs
            if run.status == RunStatus.COMPLETED
            or (RunStatus(run.status).is_final and run.run_id == last[run.seed])
        ]

    def _finish(self, live: LiveRun, result: RunResult) -> None:
        self.flush(live)
        runs = self._ended(live.trial_id, live.seed_kind)
        feasible, found = verdict([*runs, result], self._constraints)
        diagnosis = diagnose(live.spec, result, live.curve)
        is_test = live.seed_kind == "test"  # confirms what is known, and decides nothing
        self._store.finish_run(
            live.run_id,
            result,
            feasible=None if is_test else feasible,
            evaluations=live.evaluations,
            violations=None if is_test else found,
            host=live.host,
            bottleneck=None if diagnosis is None else diagnosis.bottleneck.value,
            advice=None if diagnosis is None else diagnosis.advice,
            rung=live.rung if result.status is RunStatus.PRUNED else None,
        )
        self._store.add_event(
            result.status.value.lower(),
            study_id=self._study_id,
            trial_id=live.trial_id,
            run_id=live.run_id,
            detail=None if result.reason is None else result.reason.splitlines()[0],
        )
