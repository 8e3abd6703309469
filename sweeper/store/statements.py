"""What the writer's transactions are made of; each takes the connection of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
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

from sweeper.core.records import Evaluation, HostRecord, RunStatus
from sweeper.store import schema as t
from sweeper.store.flatten import evaluation_columns

UNFINISHED = (RunStatus.QUEUED.value, RunStatus.RUNNING.value)


def insert_row(connection: Connection, table: Table, **values: Any) -> int:
    """Insert one; returns its key."""
    key = connection.execute(insert(table).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert several at once, or none."""
    if rows:
        connection.execute(insert(table), rows)


def insert_event(
    connection: Connection,
    kind: str,
    *,
    at: datetime,
    trial_id: int,
    run_id: int | None = None,
    detail: str | None = None,
) -> None:
    """Note what befell a trial, in the same transaction."""
    study_id = select(t.trials.c.study_id).where(t.trials.c.trial_id == trial_id).scalar_subquery()
    insert_row(
        connection,
        t.events,
        at=at,
        study_id=study_id,
        trial_id=trial_id,
        run_id=run_id,
        kind=kind,
        detail=detail,
    )


def survive_a_crash(connection: Connection) -> None:
    """Have this transaction, and all before it, outlive a crash of a PostgreSQL server: runs
    that were begun or ended must not be undone behind their launcher's back."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")


def replace_violations(
    connection: Connection, trial_id: int, violations: Mapping[str, float]
) -> None:
    """How far each constraint is violated by now."""
    constraints = t.trial_constraints
    connection.execute(delete(constraints).where(constraints.c.trial_id == trial_id))
    rows = [{"trial_id": trial_id, "name": k, "value": v} for k, v in violations.items()]
    insert_rows(connection, constraints, rows)


def insert_evaluations(connection: Connection, run_id: int, rows: Sequence[Evaluation]) -> None:
    """Add episodes; one that is stored already is left as it is."""
    if rows:
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        connection.execute(
            dialect.insert(t.evaluations).on_conflict_do_nothing(),
            [evaluation_columns(run_id, row) for row in rows],
        )


def ensure_host(connection: Connection, host: HostRecord) -> int:
    """The host_id of exactly this machine and these versions, made if it is new."""
    values = asdict(host)
    same = (t.hosts.c[name].is_not_distinct_from(value) for name, value in values.items())
    found = connection.scalar(select(t.hosts.c.host_id).where(*same))
    return insert_row(connection, t.hosts, **values) if found is None else found


def follow_runs(connection: Connection, which: ColumnElement[bool]) -> None:
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
        .values(status=status, change_count=next_change(t.trials.c.study_id))
    )


def next_change(study_id: int | ColumnElement[int]) -> ScalarSelect[int]:
    """What the study's change_count will be once `touch` has ended this transaction."""
    return (
        select(t.studies.c.change_count + 1)
        .where(t.studies.c.study_id == study_id)
        .scalar_subquery()
    )


def touch(connection: Connection, study_id: int | ScalarSelect[int]) -> None:
    """Tell whoever watches the study that it has changed (`queries.change_token`)."""
    connection.execute(
        update(t.studies)
        .where(t.studies.c.study_id == study_id)
        .values(change_count=t.studies.c.change_count + 1)
    )


def touch_of_run(connection: Connection, run_id: int) -> None:
    """The same for the study of a run."""
    study_id = (
        select(t.trials.c.study_id)
        .join(t.runs, t.runs.c.trial_id == t.trials.c.trial_id)
        .where(t.runs.c.run_id == run_id)
    )
    touch(connection, study_id.scalar_subquery())
