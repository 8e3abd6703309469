"""What a launcher asks of its study, and what the commands that deal with launchers ask."""

from __future__ import annotations

from typing import get_args

from sqlalchemy import Engine, func, select

from sweeper.store import schema as t
from sweeper.store.queries import read_rows
from sweeper.store.rows import LOG, RETRY, AttemptRow, RungRow, Stop


def count_runs(engine: Engine, study_id: int, kind: str) -> int:
    """Runs of a kind (first | replicate | retry | confirm) that a study has made."""
    query = (
        select(func.count())
        .select_from(t.runs)
        .join(t.trials, t.trials.c.trial_id == t.runs.c.trial_id)
        .where(t.trials.c.study_id == study_id, t.runs.c.kind == kind)
    )
    with engine.connect() as connection:
        return int(connection.scalar(query) or 0)


def count_unfinished_runs(engine: Engine, study_id: int) -> int:
    """Runs of a study that have not ended, as far as the database knows."""
    query = (
        select(func.count())
        .select_from(t.runs)
        .join(t.trials, t.trials.c.trial_id == t.runs.c.trial_id)
        .where(t.trials.c.study_id == study_id, t.runs.c.ended_at.is_(None))
    )
    with engine.connect() as connection:
        return int(connection.scalar(query) or 0)


def last_attempts(engine: Engine, study_id: int) -> list[AttemptRow]:
    """Of each trial, seed and budget of a study the last attempt, by number of trial."""
    runs, events = t.runs.c, t.events.c
    last = (
        select(func.max(runs.run_id).label("run_id"), func.count().label("n_attempts"))
        .join(t.trials, t.trials.c.trial_id == runs.trial_id)
        .where(t.trials.c.study_id == study_id)
        .group_by(
            runs.trial_id, runs.seed_kind, runs.seed, runs.budget_seconds, runs.budget_env_steps
        )
        .subquery()
    )
    asked = select(events.run_id).where(events.study_id == study_id, events.kind == RETRY)
    query = (
        select(
            runs.run_id,
            runs.trial_id,
            t.trials.c.number,
            runs.seed_kind,
            runs.seed,
            runs.budget_seconds,
            runs.budget_env_steps,
            runs.attempt,
            last.c.n_attempts,
            runs.status,
            runs.run_id.in_(asked).label("is_asked"),
        )
        .join(last, last.c.run_id == runs.run_id)
        .join(t.trials, t.trials.c.trial_id == runs.trial_id)
        .order_by(t.trials.c.number, runs.run_id)
    )
    return read_rows(engine, AttemptRow, query)


def stop_asked(engine: Engine, study_id: int, launcher_id: str) -> Stop | None:
    """How this launcher of the study is asked to stop, if it is."""
    events = t.events.c
    query = select(func.max(events.kind)).where(
        events.study_id == study_id,
        events.kind.in_(get_args(Stop)),
        events.detail == launcher_id,
    )
    with engine.connect() as connection:
        asked: Stop | None = connection.scalar(query)  # "stop_now" is the greater
    return asked


def event_details(engine: Engine, study_id: int, kind: str) -> list[str | None]:
    """What the study's events of a kind say."""
    events = t.events.c
    query = select(events.detail).where(events.study_id == study_id, events.kind == kind)
    with engine.connect() as connection:
        return list(connection.scalars(query))


def log_of(engine: Engine, study_id: int) -> tuple[str, str] | None:
    """(host, path) of the log of the study's last launch that has one."""
    events = t.events.c
    query = select(events.detail).where(events.study_id == study_id, events.kind == LOG)
    with engine.connect() as connection:
        place = connection.scalar(query.order_by(events.event_id.desc()).limit(1))
    if place is None:
        return None
    host, _, path = place.partition(":")
    return host, path


def points_at(engine: Engine, study_id: int, progress: float) -> list[RungRow]:
    """Where each run of a study with a tuning seed stood once it had spent a share of its
    budget: its first measurement from there on that has a training return."""
    points = t.measurements.c
    first = (
        select(points.run_id, func.min(points.env_steps).label("env_steps"))
        .join(t.runs, t.runs.c.run_id == points.run_id)
        .join(t.trials, t.trials.c.trial_id == t.runs.c.trial_id)
        .where(
            t.trials.c.study_id == study_id,
            t.runs.c.seed_kind == "tuning",
            points.progress >= progress,
            points.training_return.is_not(None),
        )
        .group_by(points.run_id)
        .subquery()
    )
    query = (
        select(
            t.trials.c.number,
            t.runs.c.seed,
            points.progress,
            points.training_return,
            points.steps_per_second,
        )
        .join(first, (first.c.run_id == points.run_id) & (first.c.env_steps == points.env_steps))
        .join(t.runs, t.runs.c.run_id == points.run_id)
        .join(t.trials, t.trials.c.trial_id == t.runs.c.trial_id)
        .order_by(points.run_id)
    )
    return read_rows(engine, RungRow, query)
