"""Every SELECT of the project, returning frozen rows. Nothing here writes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import fields
from difflib import get_close_matches
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, func, null, select

from sweeper.core.errors import InputError
from sweeper.core.records import RunStatus
from sweeper.store import schema as t
from sweeper.store.connect import open_read_only, require_current
from sweeper.store.rows import (
    CurvePoint,
    EvaluationRow,
    EventRow,
    HostRow,
    ImportanceRow,
    LauncherRow,
    MeasurementRow,
    ParamValue,
    RunRow,
    SlotRow,
    StudyRow,
    TrialRow,
)
from sweeper.store.views import has_budget_of_trial, trial_results

Row = TypeVar("Row")


def open_reader(url: str) -> Engine:
    """A database to read, held to reading by the database itself. `dispose()` it when done.

    Raises DatabaseError for one that does not exist, cannot be reached, is no database of
    sweeper's, or is of an older or newer release.
    """
    engine = open_read_only(url)
    try:
        with engine.connect() as connection:
            require_current(connection)
    except BaseException:
        engine.dispose()
        raise
    return engine


def studies(engine: Engine) -> list[StudyRow]:
    """Every study, the last launched first."""
    with engine.connect() as connection:
        return _studies(connection)


def study(engine: Engine, name: str | None) -> StudyRow:
    """The study of that name; None is the last launched.

    Raises InputError that names the nearest and all other studies.
    """
    with engine.connect() as connection:
        if name is None:
            study_id = connection.scalar(
                select(t.studies.c.study_id).order_by(*_LAST_LAUNCHED).limit(1)
            )
        else:
            study_id = connection.scalar(
                select(t.studies.c.study_id).where(t.studies.c.name == name)
            )
        if study_id is not None:
            return _studies(connection, t.studies.c.study_id == study_id)[0]
        names = list(connection.scalars(select(t.studies.c.name).order_by(*_LAST_LAUNCHED)))
    if not names:
        raise InputError("there is no study in this database yet; `sweeper launch` makes one")
    near = get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    raise InputError(f"there is no study {name!r}{hint} (there are: {listed})")


def trials(engine: Engine, study_id: int, *, since: int = -1) -> list[TrialRow]:
    """Every trial of a study, by number; or those that have changed after the study's
    change_count was `since` (`change_token` ends in it)."""
    table = t.trials.c
    where = table.study_id == study_id
    if since >= 0:
        where &= table.change_count > since
    with engine.connect() as connection:
        return _trials(connection, where)


def trial(engine: Engine, study_id: int, number: int) -> TrialRow:
    """One trial of a study. Raises InputError that says which there are."""
    table = t.trials.c
    with engine.connect() as connection:
        found = _trials(connection, (table.study_id == study_id) & (table.number == number))
        if found:
            return found[0]
        last = connection.scalar(
            select(func.max(t.trials.c.number)).where(t.trials.c.study_id == study_id)
        )
    there_are = "it has none yet" if last is None else f"it has 1 to {last}"
    raise InputError(f"the study has no trial {number}; {there_are}")


def runs(engine: Engine, trial_id: int) -> list[RunRow]:
    """Every run of a trial, in the order they were made."""
    columns = [
        t.hosts.c.hostname if field.name == "hostname" else t.runs.c[field.name]
        for field in fields(RunRow)
    ]
    query = (
        select(*columns)
        .select_from(t.runs)
        .outerjoin(t.hosts, t.hosts.c.host_id == t.runs.c.host_id)
        .where(t.runs.c.trial_id == trial_id)
        .order_by(t.runs.c.run_id)
    )
    return read_rows(engine, RunRow, query)


def study_runs(engine: Engine, study_id: int) -> list[SlotRow]:
    """Every run of a study, in the order they were made."""
    of_host = {name: t.hosts.c[name] for name in ("hostname", "hardware_class")}
    columns = {**t.runs.c, **of_host, "number": t.trials.c.number}
    query = (
        select(*(columns[field.name] for field in fields(SlotRow)))
        .select_from(t.runs)
        .join(t.trials, t.trials.c.trial_id == t.runs.c.trial_id)
        .outerjoin(t.hosts, t.hosts.c.host_id == t.runs.c.host_id)
        .where(t.trials.c.study_id == study_id)
        .order_by(t.runs.c.run_id)
    )
    return read_rows(engine, SlotRow, query)


def curves(engine: Engine, trial_ids: Collection[int]) -> dict[int, list[list[CurvePoint]]]:
    """Trial -> the learning curve of each of its COMPLETED runs on its own budget, points without
    a return left out. Trials without any are missing."""
    table = t.measurements.c
    query = (
        select(
            table.run_id,
            t.runs.c.trial_id,
            t.runs.c.seed_kind,
            table.elapsed_seconds,
            table.env_steps,
            table.training_return,
            table.steps_per_second,
        )
        .join(t.runs, t.runs.c.run_id == table.run_id)
        .join(t.trials, t.trials.c.trial_id == t.runs.c.trial_id)
        .where(
            has_budget_of_trial(),
            t.runs.c.trial_id.in_(trial_ids),
            t.runs.c.status == RunStatus.COMPLETED.value,
            table.training_return.is_not(None),
        )
        .order_by(table.run_id, table.env_steps)
    )
    found: dict[int, list[list[CurvePoint]]] = defaultdict(list)
    for _, points in groupby(read_rows(engine, CurvePoint, query), key=lambda point: point.run_id):
        curve = list(points)
        found[curve[0].trial_id].append(curve)
    return dict(found)


def importances(engine: Engine, study_id: int) -> list[ImportanceRow]:
    """The latest importances of each objective, the greatest first."""
    table = t.importances.c
    latest = (
        select(table.objective, func.max(table.at).label("at"))
        .where(table.study_id == study_id)
        .group_by(table.objective)
        .subquery()
    )
    query = (
        select(table.at, table.objective, table.path, table.importance)
        .join(latest, (latest.c.objective == table.objective) & (latest.c.at == table.at))
        .where(table.study_id == study_id)
        .order_by(table.objective, table.importance.desc())
    )
    return read_rows(engine, ImportanceRow, query)


def launcher(engine: Engine, study_id: int) -> LauncherRow | None:
    """Who holds the study; `lease.is_held` tells whether it still lives."""
    table = t.launchers.c
    query = select(*(table[field.name] for field in fields(LauncherRow)))
    return next(iter(read_rows(engine, LauncherRow, query.where(table.study_id == study_id))), None)


def measurements(engine: Engine, run_id: int) -> list[MeasurementRow]:
    """The learning curve of a run, in order of time."""
    table = t.measurements
    query = select(*(table.c[field.name] for field in fields(MeasurementRow)))
    return read_rows(
        engine, MeasurementRow, query.where(table.c.run_id == run_id).order_by(table.c.env_steps)
    )


def evaluations(engine: Engine, run_id: int) -> list[EvaluationRow]:
    """The evaluation episodes of a run, the deterministic ones first."""
    table = t.evaluations
    query = select(*(table.c[field.name] for field in fields(EvaluationRow)))
    return read_rows(
        engine,
        EvaluationRow,
        query.where(table.c.run_id == run_id).order_by(
            table.c.deterministic.desc(), table.c.episode
        ),
    )


def violations(engine: Engine, trial_id: int) -> dict[str, float]:
    """Requirement -> by how much a trial violates it; satisfied from 0 down."""
    table = t.trial_constraints.c
    query = select(table.name, table.value).where(table.trial_id == trial_id).order_by(table.name)
    with engine.connect() as connection:
        return dict(connection.execute(query).all())


def events(engine: Engine, study_id: int, limit: int = 100) -> list[EventRow]:
    """The latest events of a study, newest first."""
    table = t.events
    query = select(*(table.c[field.name] for field in fields(EventRow)))
    return read_rows(
        engine,
        EventRow,
        query.where(table.c.study_id == study_id).order_by(table.c.event_id.desc()).limit(limit),
    )


def hosts(engine: Engine) -> list[HostRow]:
    """Every machine that runs have used."""
    table = t.hosts
    query = select(*(table.c[field.name] for field in fields(HostRow)))
    return read_rows(engine, HostRow, query.order_by(table.c.hostname, table.c.host_id))


def database_token(engine: Engine) -> str:
    """The same for the whole database: which studies there are, and how they are."""
    with engine.connect() as connection:
        count, changes = connection.execute(
            select(func.count(), func.sum(t.studies.c.change_count))
        ).one()
    return f"{count}.{changes or 0}"


def change_token(engine: Engine, study_id: int) -> str:
    """A text that differs whenever anything of the study has changed; cheap to poll."""
    with engine.connect() as connection:
        count = connection.scalar(
            select(t.studies.c.change_count).where(t.studies.c.study_id == study_id)
        )
    return f"{study_id}.{count}"


_LAST_LAUNCHED = (t.studies.c.launched_at.desc(), t.studies.c.study_id.desc())


def read_rows(engine: Engine, row: type[Row], query: Select[Any]) -> list[Row]:
    """All that a query answers, in rows whose fields are its columns, in order."""
    with engine.connect() as connection:
        return [row(*values) for values in connection.execute(query)]


def _studies(connection: Connection, *where: ColumnElement[bool]) -> list[StudyRow]:
    versions = t.study_versions
    latest = (
        select(versions.c.study_id, func.max(versions.c.version_id).label("version_id"))
        .group_by(versions.c.study_id)
        .subquery()
    )
    query = (
        select(t.studies.c.name, t.studies.c.target_trials, t.studies.c.created_at.label("begun"))
        .add_columns(*versions.c)
        .join(latest, latest.c.study_id == t.studies.c.study_id)
        .join(versions, versions.c.version_id == latest.c.version_id)
        .where(*where)
        .order_by(*_LAST_LAUNCHED)
    )
    by_status = select(t.trials.c.study_id, t.trials.c.status, func.count()).group_by(
        t.trials.c.study_id, t.trials.c.status
    )
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for study_id, status, count in connection.execute(by_status):
        counts[study_id][status] = count
    last_events = dict(
        connection.execute(
            select(t.events.c.study_id, func.max(t.events.c.at)).group_by(t.events.c.study_id)
        ).all()
    )
    return [
        StudyRow(
            study_id=row.study_id,
            name=row.name,
            created_at=row.begun,
            version=row.number,
            objectives=json.loads(row.objectives),
            constraints=json.loads(row.constraints),
            budget_seconds=row.budget_seconds,
            budget_env_steps=row.budget_env_steps,
            spec_yaml=row.spec_yaml,
            target_trials=row.target_trials,
            status_counts=counts[row.study_id],
            last_event_at=last_events.get(row.study_id),
            env=row.env,
            untrained_return=row.untrained_return,
        )
        for row in connection.execute(query)
    ]


_TRIAL = [field.name for field in fields(TrialRow)]
# Seventy columns take longer to put into a statement than a trial to be read.
_TRIAL_ROWS = select(
    *(trial_results.c[name] if name != "params" else null() for name in _TRIAL)
).order_by(trial_results.c.number)


def _trials(connection: Connection, where: ColumnElement[bool]) -> list[TrialRow]:
    """Of the table `trials`; ten thousand of them must not be waited for."""
    params = t.trial_params.c
    of_trial: dict[int, dict[str, ParamValue]] = defaultdict(dict)
    for trial_id, path, number, text in connection.execute(
        select(params.trial_id, params.path, params.value_number, params.value_text)
        .join(t.trials, t.trials.c.trial_id == params.trial_id)
        .where(where)
        .order_by(params.trial_id, params.path)
    ):
        of_trial[trial_id][path] = text if number is None else _number(text)
    at_params, at_reason, at_id = map(_TRIAL.index, ("params", "reason", "trial_id"))
    # Below the view, so that only the chosen trials are put together.
    chosen = select(t.trials.c.trial_id).where(where)
    result = []
    for row in connection.execute(_TRIAL_ROWS.where(trial_results.c.trial_id.in_(chosen))):
        values = list(row)
        values[at_params] = of_trial[values[at_id]]
        if values[at_reason]:
            values[at_reason] = values[at_reason].splitlines()[0]
        result.append(TrialRow(*values))
    return result


@lru_cache(maxsize=10_000)
def _number(text: str) -> ParamValue:
    """A number or boolean of trial_params with its type."""
    value: ParamValue = json.loads(text)
    return value
