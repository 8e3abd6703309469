"""From a job to a row: starts a run, carries what it says to the store, judges its trial."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine

from sweeper.core.errors import DatabaseAwayError
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
from sweeper.study.outcome import Requirements, verdict, violations
from sweeper.study.spool import Ended, Entry, Measured, Spool, merged, read_spool
from sweeper.trial.diagnose import diagnose
from sweeper.trial.spec import TrialSpec


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
    n_other: int = 0
    """Earlier attempts with its seed on other budgets: they count for its number alone."""


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
    n_other: int = 0
    """As of its job."""
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
        return Job(
            self.trial_id,
            self.number,
            self.spec,
            "retry",
            self.attempt + 1,
            self.seed_kind,
            why,
            self.n_other,
        )


class Recorder:
    """Writes the runs of one study: to its database, and while that is away to a spool."""

    def __init__(
        self,
        store: Store,
        reader: Engine,
        study_id: int,
        requirements: Requirements,
        *,
        spool: Spool,
    ) -> None:
        self._store = store
        self._reader = reader
        self._study_id = study_id
        self.requirements = requirements
        """Of whatever is judged from now on."""
        self._spool = spool
        self.away: str | None = None
        """Why the database takes nothing now: everything goes to the spool, until `replay`."""

    def start(self, job: Job) -> LiveRun:
        """A row for the run, RUNNING from now on. Raises DatabaseAwayError; the same job again
        then makes no second row."""
        run_id = self._store.add_run(
            job.trial_id,
            kind=job.kind,
            attempt=job.attempt,
            seed=job.spec.seed,
            seed_kind=job.seed_kind,
            host=None,
            budget=job.spec.budget,
            why=job.why,
        )
        return LiveRun(
            run_id,
            job.trial_id,
            job.number,
            job.spec,
            job.kind,
            job.attempt,
            job.seed_kind,
            job.n_other,
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
        if live.unwritten:
            self._put(Measured(live.run_id, tuple(live.unwritten)))
            live.unwritten.clear()

    def replay(self, lives: Iterable[LiveRun]) -> int:
        """Write what waits in the spool, and of the runs in progress what is not there; returns
        how many entries waited. Raises DatabaseAwayError, and loses nothing."""
        entries = self._spool.entries()
        curves = [Measured(live.run_id, tuple(live.curve)) for live in lives]
        self._write_all([*entries, *curves])
        self._spool.clear()
        self.away = None
        return len(entries)

    def replay_left(self, path: Path) -> int:
        """The same of a file that a launcher left when it died."""
        entries = read_spool(path)
        self._write_all(entries)
        path.unlink()
        return len(entries)

    def close(self) -> None:
        """Leave what waits to the next launch."""
        self._spool.close()

    @property
    def spool_path(self) -> Path | None:
        """Where something waits, if it does."""
        return self._spool.path if self._spool.count else None

    def judge(self, trial: TrialRow) -> None:
        """Judge a completed trial by the requirements as they are now."""
        satisfied = all(v <= 0 for v in violations([trial], self.requirements).values())
        if satisfied == trial.feasible:
            return
        feasible, found = verdict(self._ended(trial.trial_id, "tuning"), self.requirements)
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
        diagnosis = diagnose(live.spec, result, live.curve)
        self._put(
            Ended(
                live.run_id,
                live.trial_id,
                live.seed_kind,
                at=self._store.now(),
                result=result,
                evaluations=tuple(live.evaluations),
                host=live.host,
                rung=live.rung if result.status is RunStatus.PRUNED else None,
                bottleneck=None if diagnosis is None else diagnosis.bottleneck.value,
                advice=None if diagnosis is None else diagnosis.advice,
            )
        )
        if self.away is not None:  # a crash of the server may have taken the end of the curve
            self._spool.append(Measured(live.run_id, tuple(live.curve)))

    def _put(self, entry: Entry) -> None:
        if self.away is None:
            try:
                self._write(entry)
            except DatabaseAwayError as error:
                self.away = str(error)
        if self.away is not None:
            self._spool.append(entry)

    def _write_all(self, entries: Sequence[Entry]) -> None:
        for entry in merged(entries):
            self._write(entry)

    def _write(self, entry: Entry) -> None:
        if isinstance(entry, Measured):
            self._store.add_measurements(entry.run_id, entry.measurements)
            return
        runs = self._ended(entry.trial_id, entry.seed_kind)
        feasible, found = verdict([*runs, entry.result], self.requirements)
        is_test = entry.seed_kind == "test"  # confirms what is known, and decides nothing
        self._store.finish_run(
            entry.run_id,
            entry.result,
            feasible=None if is_test else feasible,
            evaluations=entry.evaluations,
            violations=None if is_test else found,
            host=entry.host,
            bottleneck=entry.bottleneck,
            advice=entry.advice,
            rung=entry.rung,
            at=entry.at,
        )
