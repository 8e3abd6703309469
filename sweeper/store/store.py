"""`Store`: the only writer of the results database.

Every method is one short transaction, and leaves the database as a reader may see it; they stand
in one class, since all of them write under one lease, and the SQL that several share stands in
`statements`. What a launcher may say twice (a measurement, an episode, the end of a run) is
written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from sqlalchemy import Connection, Engine, delete, func, select, update

from sweeper.core.clock import BudgetSpec, utc_now
from sweeper.core.records import Evaluation, HostRecord, Measurement, RunResult, RunStatus
from sweeper.store import lease, requests
from sweeper.store import schema as t
from sweeper.store.connect import (
    BUSY_OPTION,
    BUSY_SECONDS,
    open_writer,
    require_current,
    schema_revision,
)
from sweeper.store.downsample import Point, thin
from sweeper.store.flatten import (
    budget_columns,
    configuration_columns,
    measurement_columns,
    outcome_columns,
    param_columns,
)
from sweeper.store.migrate import lock_for_writing, migrate
from sweeper.store.rows import LauncherRow, ParamValue, Stop
from sweeper.store.statements import (
    UNFINISHED,
    ensure_host,
    follow_runs,
    insert_evaluations,
    insert_event,
    insert_row,
    insert_rows,
    next_change,
    replace_violations,
    survive_a_crash,
    touch,
    touch_of_run,
)
from sweeper.store.versions import StudyFile, StudyRef, ensure_study
from sweeper.trial.spec import TrialSpec

START_EVENTS = {
    "first": "started",
    "replicate": "replicated",
    "retry": "retried",
    "confirm": "confirming",
}
"""Kind of run -> the event that its start is."""


@dataclass(frozen=True, slots=True)
class TrialRef:
    """A trial that was added."""

    trial_id: int
    number: int


class Store:
    """The writing end of one results database; `with Store.open(url) as store`."""

    def __init__(self, engine: Engine, *, now: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self.now = now
        """What rows are stamped with."""
        self._lease: tuple[int, str] | None = None
        """(study_id, launcher_id): without it nothing more is written."""

    @classmethod
    def open(cls, url: str, *, now: Callable[[], datetime] = utc_now) -> Self:
        """Open for writing; an empty or missing database gets its tables.

        `now` gives the timestamps. Raises DatabaseError for a database that cannot be
        written, is of an older or newer release, or is not sweeper's.
        """
        store = cls(open_writer(url), now=now)
        try:
            with store._transaction() as connection:
                if schema_revision(connection) is None:
                    migrate(connection)
                require_current(connection)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Give up all connections; safe to call twice."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def ensure_study(
        self,
        name: str,
        *,
        env: str,
        spec_yaml: str,
        spec_sha256: str,
        objectives: Mapping[str, str],
        constraints: Mapping[str, Mapping[str, float]],
        budget: BudgetSpec,
        target_trials: int | None = None,
        new_version: bool = False,
    ) -> StudyRef:
        """The study of that name, made or continued.

        objectives: metric -> "maximize" | "minimize", in order.
        constraints: metric -> {"min": x} and/or {"max": x}.
        new_version: whether a file that differs from the latest version makes another;
            otherwise it raises StudyChangedError, unless no trial was asked for under that
            version: then the file takes its place.
        Raises LauncherBusyError, and changes nothing, while a launcher holds the study.
        """
        file = StudyFile(spec_yaml, spec_sha256, env, objectives, constraints, budget)
        with self._transaction() as connection:
            ref = ensure_study(
                connection,
                name,
                file,
                target_trials=target_trials,
                new_version=new_version,
                now=self.now(),
            )
            touch(connection, ref.study_id)
        return ref

    def note_untrained_return(self, ref: StudyRef, value: float) -> None:
        """What the policy returns before any training, under this version of the study."""
        version = t.study_versions.c.version_id == ref.version_id
        with self._transaction() as connection:
            connection.execute(
                update(t.study_versions).where(version).values(untrained_return=value)
            )
            touch(connection, ref.study_id)

    def add_trial(
        self,
        ref: StudyRef,
        *,
        origin: str,
        sampler: str | None,
        config: TrialSpec,
        params: Mapping[str, ParamValue],
    ) -> TrialRef:
        """A new trial, QUEUED, with the next number of its study.

        origin: baseline | enqueued | startup | sampler | warm_start.
        params: searched parameter (dotted path into `trial:`) -> value.
        Its event is `asked`.
        """
        with self._transaction(durable=True) as connection:
            number = connection.scalar(
                select(func.coalesce(func.max(t.trials.c.number), 0) + 1).where(
                    t.trials.c.study_id == ref.study_id
                )
            )
            assert number is not None
            trial_id = insert_row(
                connection,
                t.trials,
                study_id=ref.study_id,
                version_id=ref.version_id,
                number=number,
                origin=origin,
                sampler=sampler,
                asked_at=self.now(),
                status=RunStatus.QUEUED.value,
                change_count=next_change(ref.study_id),
                **budget_columns(config.budget),
                **configuration_columns(config),
            )
            insert_rows(
                connection,
                t.trial_params,
                [{"trial_id": trial_id, "path": p, **param_columns(v)} for p, v in params.items()],
            )
            insert_event(connection, "asked", at=self.now(), trial_id=trial_id)
            touch(connection, ref.study_id)
        return TrialRef(trial_id, number)

    def add_run(
        self,
        trial_id: int,
        *,
        kind: str,
        attempt: int,
        seed: int,
        seed_kind: str,
        host: HostRecord | None,
        budget: BudgetSpec,
        why: str | None = None,
    ) -> int:
        """A new run, RUNNING from now on; returns its run_id.

        kind: first | replicate | retry | confirm. attempt: 1, 2, ... with the same seed.
        seed_kind: tuning | test. host: None when it is not known yet; `finish_run` may tell.
        why: what the event of its start says. Said again for a run that is RUNNING, it
        changes nothing.
        """
        run = t.runs.c
        with self._transaction(durable=True) as connection:
            there = connection.scalar(
                select(run.run_id).where(
                    run.trial_id == trial_id,
                    run.seed_kind == seed_kind,
                    run.seed == seed,
                    run.attempt == attempt,
                    run.status == RunStatus.RUNNING.value,
                )
            )
            if there is not None:
                return int(there)
            run_id = insert_row(
                connection,
                t.runs,
                trial_id=trial_id,
                kind=kind,
                attempt=attempt,
                seed=seed,
                seed_kind=seed_kind,
                host_id=None if host is None else ensure_host(connection, host),
                status=RunStatus.RUNNING.value,
                started_at=self.now(),
                **budget_columns(budget),
            )
            follow_runs(connection, t.trials.c.trial_id == trial_id)
            insert_event(
                connection,
                START_EVENTS[kind],
                at=self.now(),
                trial_id=trial_id,
                run_id=run_id,
                detail=why,
            )
            touch_of_run(connection, run_id)
        return run_id

    def add_measurements(self, run_id: int, rows: Sequence[Measurement]) -> None:
        """More of a run's learning curve, in order; thinned to about 300 points a run."""
        if not rows:
            return
        points = t.measurements.c
        with self._transaction() as connection:
            stored = connection.execute(
                select(points.env_steps, points.progress)
                .where(points.run_id == run_id)
                .order_by(points.env_steps.desc())
                .limit(2)
            )
            kept, superseded = thin(rows, stored=[Point(*point) for point in stored])
            if superseded is not None:
                connection.execute(
                    delete(t.measurements).where(
                        points.run_id == run_id, points.env_steps == superseded
                    )
                )
            insert_rows(
                connection, t.measurements, [measurement_columns(run_id, row) for row in kept]
            )
            touch_of_run(connection, run_id)

    def add_evaluations(self, run_id: int, rows: Sequence[Evaluation]) -> None:
        """Evaluation episodes of a run; an episode that is stored already is left as it is."""
        with self._transaction() as connection:
            insert_evaluations(connection, run_id, rows)
            touch_of_run(connection, run_id)

    def finish_run(
        self,
        run_id: int,
        result: RunResult,
        *,
        feasible: bool | None,
        evaluations: Sequence[Evaluation] = (),
        violations: Mapping[str, float] | None = None,
        host: HostRecord | None = None,
        bottleneck: str | None = None,
        advice: str | None = None,
        rung: int | None = None,
        at: datetime | None = None,
    ) -> bool:
        """How a run ended, with its episodes and what follows for its trial; its event is its
        status.

        feasible: whether the trial may stand on the front; None leaves it as it is.
        violations: constraint -> how far it is violated; <= 0 is feasible.
        rung: 1, 2, ... of a run that was PRUNED there.
        at: when it ended; None is now.
        Returns False, and writes nothing, for a run that has ended already. Only a run that
        was given up as LOST may still report, once.
        """
        if not result.status.is_final:
            raise ValueError(f"run {run_id} cannot end as {result.status}")
        late = () if result.status is RunStatus.LOST else (RunStatus.LOST.value,)
        ended_at = at or self.now()
        with self._transaction(durable=True) as connection:
            values = outcome_columns(result) | {
                "ended_at": ended_at,
                "bottleneck": bottleneck,
                "advice": advice,
                "rung": rung,
            }
            if host is not None:
                values["host_id"] = ensure_host(connection, host)
            finished = connection.execute(
                update(t.runs)
                .where(t.runs.c.run_id == run_id, t.runs.c.status.in_(UNFINISHED + late))
                .values(values)
            )
            if finished.rowcount == 0:
                return False
            trial_id = connection.scalar(select(t.runs.c.trial_id).where(t.runs.c.run_id == run_id))
            assert trial_id is not None
            insert_evaluations(connection, run_id, evaluations)
            follow_runs(connection, t.trials.c.trial_id == trial_id)
            if feasible is not None:
                connection.execute(
                    update(t.trials)
                    .where(t.trials.c.trial_id == trial_id)
                    .values(feasible=feasible)
                )
            if violations is not None:
                replace_violations(connection, trial_id, violations)
            insert_event(
                connection,
                result.status.value.lower(),
                at=ended_at,
                trial_id=trial_id,
                run_id=run_id,
                detail=None if result.reason is None else result.reason.splitlines()[0],
            )
            touch_of_run(connection, run_id)
        return True

    def judge_trial(
        self, study_id: int, trial_id: int, *, feasible: bool, violations: Mapping[str, float]
    ) -> None:
        """Judge a finished trial anew: the constraints of its study have changed."""
        with self._transaction() as connection:
            connection.execute(
                update(t.trials)
                .where(t.trials.c.trial_id == trial_id)
                .values(feasible=feasible, change_count=next_change(study_id))
            )
            replace_violations(connection, trial_id, violations)
            touch(connection, study_id)

    def mark_lost(self, study_id: int, reason: str) -> list[int]:
        """Give up every unfinished run of the study, as its launcher is dead.

        Returns their run_ids: what must be retried. Trials follow their runs; one that is
        QUEUED without a run stays so.
        """
        in_study = select(t.trials.c.trial_id).where(t.trials.c.study_id == study_id)
        left = t.runs.c.trial_id.in_(in_study) & t.runs.c.status.in_(UNFINISHED)
        with self._transaction() as connection:
            lost = list(connection.scalars(select(t.runs.c.run_id).where(left).order_by("run_id")))
            if lost:
                connection.execute(
                    update(t.runs)
                    .where(left)
                    .values(status=RunStatus.LOST.value, reason=reason, ended_at=self.now())
                )
                follow_runs(
                    connection,
                    (t.trials.c.study_id == study_id) & t.trials.c.status.in_(UNFINISHED),
                )
                touch(connection, study_id)
        return lost

    def add_event(
        self,
        kind: str,
        *,
        study_id: int,
        trial_id: int | None = None,
        run_id: int | None = None,
        detail: str | None = None,
    ) -> None:
        """Something happened now: asked, started, finished, lost, retried, ..."""
        with self._transaction() as connection:
            insert_row(
                connection,
                t.events,
                at=self.now(),
                study_id=study_id,
                trial_id=trial_id,
                run_id=run_id,
                kind=kind,
                detail=detail,
            )
            touch(connection, study_id)

    def ask_to_stop(self, study_id: int, how: Stop) -> LauncherRow:
        """Ask the study's launcher to end, wherever it runs; returns who that is. Raises
        InputError if nobody launches it."""
        with self._transaction() as connection:
            launcher = requests.ask_to_stop(connection, study_id, how, now=self.now())
            touch(connection, study_id)
        return launcher

    def add_importances(
        self, study_id: int, importances: Mapping[str, Mapping[str, float]]
    ) -> None:
        """How much each parameter matters by now: objective -> path -> share. Said twice at one
        moment, the last stays."""
        now = self.now()
        rows = [
            {"study_id": study_id, "at": now, "objective": o, "path": p, "importance": share}
            for o, shares in importances.items()
            for p, share in shares.items()
        ]
        said = t.importances.c
        with self._transaction() as connection:
            connection.execute(
                delete(t.importances).where(said.study_id == study_id, said.at == now)
            )
            insert_rows(connection, t.importances, rows)
            touch(connection, study_id)

    def record_host(self, host: HostRecord) -> int:
        """The host_id of exactly this machine and these versions, made if it is new."""
        with self._transaction() as connection:
            return ensure_host(connection, host)

    def acquire_lease(
        self, study_id: int, *, launcher_id: str, host: str, pid: int, seconds: float = 30
    ) -> None:
        """Hold the study for `seconds`, as its only launcher.

        Raises LauncherBusyError while another holds it; a launcher of this host whose process
        is gone holds nothing. From now on every method raises LeaseLostError, and writes
        nothing, once another has taken the study over.
        """
        holder = lease.Holder(launcher_id=launcher_id, host=host, pid=pid)
        with self._transaction() as connection:
            lease.acquire(connection, study_id, holder, now=self.now(), seconds=seconds)
        self._lease = study_id, launcher_id

    def renew_lease(
        self,
        study_id: int,
        *,
        launcher_id: str,
        seconds: float = 30,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        """Hold it for `seconds` from now, also where it ran out and nobody took the study.

        busy_seconds: how long to wait for another process's write to SQLite.
        """
        with self._transaction(busy_seconds=busy_seconds) as connection:
            lease.renew(connection, study_id, launcher_id, now=self.now(), seconds=seconds)

    def release_lease(self, study_id: int, *, launcher_id: str) -> None:
        """Let others launch the study; nothing happens if it is held by another."""
        if self._lease == (study_id, launcher_id):
            self._lease = None
        with self._transaction() as connection:
            lease.release(connection, study_id, launcher_id)

    @contextmanager
    def _transaction(
        self, *, durable: bool = False, busy_seconds: float = BUSY_SECONDS
    ) -> Iterator[Connection]:
        engine = self._engine.execution_options(**{BUSY_OPTION: busy_seconds})
        with engine.begin() as connection:
            if durable:
                survive_a_crash(connection)
            lock_for_writing(connection)
            if self._lease is not None:
                lease.require_held(connection, *self._lease)
            yield connection
