"""`Store`: the only writer of the results database.

Every method is one short transaction, and leaves the database as a reader may see it. What
a launcher may say twice (a measurement, an episode, the end of a run) is written once.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    ScalarSelect,
    Table,
    case,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from sweeper import __version__
from sweeper.core.clock import BudgetSpec, utc_now
from sweeper.core.errors import InputError
from sweeper.core.records import Evaluation, HostRecord, Measurement, RunResult, RunStatus
from sweeper.store import lease
from sweeper.store import schema as t
from sweeper.store.connect import open_writer, require_current, schema_revision
from sweeper.store.downsample import Point, thin
from sweeper.store.flatten import (
    budget_columns,
    configuration_columns,
    evaluation_columns,
    measurement_columns,
    outcome_columns,
    param_columns,
)
from sweeper.store.migrate import lock_for_writing, migrate
from sweeper.store.queries import ParamValue
from sweeper.trial.spec import TrialSpec

_UNFINISHED = (RunStatus.QUEUED.value, RunStatus.RUNNING.value)


class StudyChangedError(InputError):
    """The study's file is not the one that it was last launched with."""

    def __init__(self, name: str, *, version: int, stored_yaml: str) -> None:
        super().__init__(
            f"study {name!r} was launched with another file (version {version}); "
            "restore that file, or give the study a new name or a new version"
        )
        self.version = version
        self.stored_yaml = stored_yaml


@dataclass(frozen=True, slots=True)
class StudyRef:
    """A study as it is launched now."""

    study_id: int
    version_id: int
    version_number: int
    created: bool
    """Whether this call made the study."""


@dataclass(frozen=True, slots=True)
class TrialRef:
    """A trial that was added."""

    trial_id: int
    number: int


class Store:
    """The writing end of one results database; `with Store.open(url) as store`."""

    def __init__(self, engine: Engine, *, now: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._now = now

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
            otherwise it raises StudyChangedError.
        Raises LauncherBusyError, and changes nothing, while a launcher holds the study.
        """
        now = self._now()
        studies, versions = t.studies.c, t.study_versions.c
        with self._transaction() as connection:
            study_id = connection.scalar(select(studies.study_id).where(studies.name == name))
            created = study_id is None
            if study_id is None:
                study_id = _insert(
                    connection,
                    t.studies,
                    name=name,
                    created_at=now,
                    created_by_version=__version__,
                    launched_at=now,
                    change_count=0,
                )
            lease.require_free(connection, study_id, host=socket.gethostname(), now=now)
            latest = connection.execute(
                select(
                    versions.version_id, versions.number, versions.spec_sha256, versions.spec_yaml
                )
                .where(versions.study_id == study_id)
                .order_by(versions.number.desc())
                .limit(1)
            ).first()
            if latest is not None and latest.spec_sha256 == spec_sha256:
                version_id, number = latest.version_id, latest.number
            elif latest is not None and not new_version:
                raise StudyChangedError(name, version=latest.number, stored_yaml=latest.spec_yaml)
            else:
                number = 1 if latest is None else latest.number + 1
                version_id = _insert(
                    connection,
                    t.study_versions,
                    study_id=study_id,
                    number=number,
                    created_at=now,
                    spec_yaml=spec_yaml,
                    spec_sha256=spec_sha256,
                    env=env,
                    objectives=json.dumps(dict(objectives)),
                    constraints=json.dumps({k: dict(v) for k, v in constraints.items()}),
                    **budget_columns(budget),
                )
            connection.execute(
                update(t.studies)
                .where(studies.study_id == study_id)
                .values(launched_at=now, target_trials=target_trials)
            )
            _touch(connection, study_id)
        return StudyRef(study_id, version_id, number, created)

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
        """
        with self._transaction() as connection:
            number = connection.scalar(
                select(func.coalesce(func.max(t.trials.c.number), 0) + 1).where(
                    t.trials.c.study_id == ref.study_id
                )
            )
            assert number is not None
            trial_id = _insert(
                connection,
                t.trials,
                study_id=ref.study_id,
                version_id=ref.version_id,
                number=number,
                origin=origin,
                sampler=sampler,
                asked_at=self._now(),
                status=RunStatus.QUEUED.value,
                change_count=_next_change(ref.study_id),
                **budget_columns(config.budget),
                **configuration_columns(config),
            )
            _insert_all(
                connection,
                t.trial_params,
                [{"trial_id": trial_id, "path": p, **param_columns(v)} for p, v in params.items()],
            )
            _touch(connection, ref.study_id)
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
    ) -> int:
        """A new run, RUNNING from now on; returns its run_id.

        kind: first | replicate | retry | confirm. attempt: 1, 2, ... with the same seed.
        seed_kind: tuning | test. host: None when it is not known yet; `finish_run` may tell.
        """
        with self._transaction() as connection:
            run_id = _insert(
                connection,
                t.runs,
                trial_id=trial_id,
                kind=kind,
                attempt=attempt,
                seed=seed,
                seed_kind=seed_kind,
                host_id=None if host is None else _host_id(connection, host),
                status=RunStatus.RUNNING.value,
                started_at=self._now(),
                **budget_columns(budget),
            )
            _follow_runs(connection, t.trials.c.trial_id == trial_id)
            _touch_of_run(connection, run_id)
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
            _insert_all(
                connection, t.measurements, [measurement_columns(run_id, row) for row in kept]
            )
            _touch_of_run(connection, run_id)

    def add_evaluations(self, run_id: int, rows: Sequence[Evaluation]) -> None:
        """Evaluation episodes of a run; an episode that is stored already is left as it is."""
        with self._transaction() as connection:
            _insert_evaluations(connection, run_id, rows)
            _touch_of_run(connection, run_id)

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
    ) -> bool:
        """How a run ended, with its episodes and what follows for its trial.

        feasible: whether the trial may stand on the front; None leaves it as it is.
        violations: constraint -> how far it is violated; <= 0 is feasible.
        rung: 1, 2, ... of a run that was PRUNED there.
        Returns False, and writes nothing, for a run that has ended already. Only a run that
        was given up as LOST may still report, once.
        """
        if not result.status.is_final:
            raise ValueError(f"run {run_id} cannot end as {result.status}")
        late = () if result.status is RunStatus.LOST else (RunStatus.LOST.value,)
        with self._transaction() as connection:
            values = outcome_columns(result) | {
                "ended_at": self._now(),
                "bottleneck": bottleneck,
                "advice": advice,
                "rung": rung,
            }
            if host is not None:
                values["host_id"] = _host_id(connection, host)
            finished = connection.execute(
                update(t.runs)
                .where(t.runs.c.run_id == run_id, t.runs.c.status.in_(_UNFINISHED + late))
                .values(values)
            )
            if finished.rowcount == 0:
                return False
            trial_id = connection.scalar(select(t.runs.c.trial_id).where(t.runs.c.run_id == run_id))
            assert trial_id is not None
            _insert_evaluations(connection, run_id, evaluations)
            _follow_runs(connection, t.trials.c.trial_id == trial_id)
            if feasible is not None:
                connection.execute(
                    update(t.trials)
                    .where(t.trials.c.trial_id == trial_id)
                    .values(feasible=feasible)
                )
            if violations is not None:
                _replace_violations(connection, trial_id, violations)
            _touch_of_run(connection, run_id)
        return True

    def judge_trial(
        self, study_id: int, trial_id: int, *, feasible: bool, violations: Mapping[str, float]
    ) -> None:
        """Judge a finished trial anew: the constraints of its study have changed."""
        with self._transaction() as connection:
            connection.execute(
                update(t.trials)
                .where(t.trials.c.trial_id == trial_id)
                .values(feasible=feasible, change_count=_next_change(study_id))
            )
            _replace_violations(connection, trial_id, violations)
            _touch(connection, study_id)

    def mark_lost(self, study_id: int, reason: str) -> list[int]:
        """Give up every unfinished run of the study, as its launcher is dead.

        Returns their run_ids: what must be retried. Trials follow their runs; one that is
        QUEUED without a run stays so.
        """
        in_study = select(t.trials.c.trial_id).where(t.trials.c.study_id == study_id)
        left = t.runs.c.trial_id.in_(in_study) & t.runs.c.status.in_(_UNFINISHED)
        with self._transaction() as connection:
            lost = list(connection.scalars(select(t.runs.c.run_id).where(left).order_by("run_id")))
            if lost:
                connection.execute(
                    update(t.runs)
                    .where(left)
                    .values(status=RunStatus.LOST.value, reason=reason, ended_at=self._now())
                )
                _follow_runs(
                    connection,
                    (t.trials.c.study_id == study_id) & t.trials.c.status.in_(_UNFINISHED),
                )
                _touch(connection, study_id)
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
            _insert(
                connection,
                t.events,
                at=self._now(),
                study_id=study_id,
                trial_id=trial_id,
                run_id=run_id,
                kind=kind,
                detail=detail,
            )
            _touch(connection, study_id)

    def add_importances(
        self, study_id: int, importances: Mapping[str, Mapping[str, float]]
    ) -> None:
        """How much each parameter matters by now: objective -> path -> share."""
        now = self._now()
        rows = [
            {"study_id": study_id, "at": now, "objective": o, "path": p, "importance": share}
            for o, shares in importances.items()
            for p, share in shares.items()
        ]
        with self._transaction() as connection:
            _insert_all(connection, t.importances, rows)
            _touch(connection, study_id)

    def record_host(self, host: HostRecord) -> int:
        """The host_id of exactly this machine and these versions, made if it is new."""
        with self._transaction() as connection:
            return _host_id(connection, host)

    def acquire_lease(
        self, study_id: int, *, launcher_id: str, host: str, pid: int, seconds: float = 30
    ) -> None:
        """Hold the study for `seconds`, as its only launcher.

        Raises LauncherBusyError while another holds it; a launcher of this host whose process
        is gone holds nothing.
        """
        holder = lease.Holder(launcher_id=launcher_id, host=host, pid=pid)
        with self._transaction() as connection:
            lease.acquire(connection, study_id, holder, now=self._now(), seconds=seconds)

    def renew_lease(self, study_id: int, *, launcher_id: str, seconds: float = 30) -> None:
        """Hold it for `seconds` from now. Raises LauncherBusyError when it was taken over."""
        with self._transaction() as connection:
            lease.renew(connection, study_id, launcher_id, now=self._now(), seconds=seconds)

    def release_lease(self, study_id: int, *, launcher_id: str) -> None:
        """Let others launch the study; nothing happens if it is held by another."""
        with self._transaction() as connection:
            lease.release(connection, study_id, launcher_id)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            lock_for_writing(connection)
            yield connection


def _insert(connection: Connection, table: Table, **values: Any) -> int:
    key = connection.execute(insert(table).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _insert_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _replace_violations(
    connection: Connection, trial_id: int, violations: Mapping[str, float]
) -> None:
    constraints = t.trial_constraints
    connection.execute(delete(constraints).where(constraints.c.trial_id == trial_id))
    rows = [{"trial_id": trial_id, "name": k, "value": v} for k, v in violations.items()]
    _insert_all(connection, constraints, rows)


def _insert_evaluations(connection: Connection, run_id: int, rows: Sequence[Evaluation]) -> None:
    if rows:
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        connection.execute(
            dialect.insert(t.evaluations).on_conflict_do_nothing(),
            [evaluation_columns(run_id, row) for row in rows],
        )


def _host_id(connection: Connection, host: HostRecord) -> int:
    values = asdict(host)
    same = (t.hosts.c[name].is_not_distinct_from(value) for name, value in values.items())
    found = connection.scalar(select(t.hosts.c.host_id).where(*same))
    return _insert(connection, t.hosts, **values) if found is None else found


def _follow_runs(connection: Connection, which: ColumnElement[bool]) -> None:
    """Set the status of some trials by their runs: COMPLETED if one is, else RUNNING if one
    is, else that of the last.
    """
    of_trial = select(t.runs.c.status).where(t.runs.c.trial_id == t.trials.c.trial_id)

    def any_is(status: RunStatus) -> ColumnElement[bool]:
        return of_trial.where(t.runs.c.status == status.value).exists()

    last = of_trial.order_by(t.runs.c.run_id.desc()).limit(1).scalar_subquery()
    status = case(
        (any_is(RunStatus.COMPLETED), RunStatus.COMPLETED.value),
        (any_is(RunStatus.RUNNING), RunStatus.RUNNING.value),
        else_=func.coalesce(last, RunStatus.QUEUED.value),
    )
    connection.execute(
        update(t.trials)
        .where(which)
        .values(status=status, change_count=_next_change(t.trials.c.study_id))
    )


def _next_change(study_id: int | ColumnElement[int]) -> ScalarSelect[int]:
    """What the study's change_count will be once `_touch` has ended this transaction."""
    return (
        select(t.studies.c.change_count + 1)
        .where(t.studies.c.study_id == study_id)
        .scalar_subquery()
    )


def _touch(connection: Connection, study_id: int | ScalarSelect[int]) -> None:
    """Tell whoever watches the study that it has changed (`queries.change_token`)."""
    connection.execute(
        update(t.studies)
        .where(t.studies.c.study_id == study_id)
        .values(change_count=t.studies.c.change_count + 1)
    )


def _touch_of_run(connection: Connection, run_id: int) -> None:
    study_id = (
        select(t.trials.c.study_id)
        .join(t.runs, t.runs.c.trial_id == t.trials.c.trial_id)
        .where(t.runs.c.run_id == run_id)
    )
    _touch(connection, study_id.scalar_subquery())
