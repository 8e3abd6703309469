"""`sweeper status`: how far the studies are."""

from __future__ import annotations

import socket
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from sweeper.cli.printing import print_json
from sweeper.cli.reading import reading
from sweeper.cli.table import print_table
from sweeper.core.clock import utc_now
from sweeper.core.records import RunStatus
from sweeper.store import queries
from sweeper.store.lease import is_held
from sweeper.store.rows import StudyRow
from sweeper.study.spool import spools
from sweeper.trial.cores import usable_cores
from sweeper.trial.queue import ahead_of, in_the_way, queue


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """A study in numbers of trials."""

    study: str
    environment: str
    trials: int
    target_trials: int | None
    completed: int
    running: int
    """Running, or waiting to be."""
    failed: int
    """Ended without being completed, for whatever reason."""
    statuses: dict[str, int]
    last_event_at: datetime | None
    launcher: Launching | None
    """Who launches it now."""
    spools: list[Spooled]
    """What was measured here while the database was away, and waits to be written."""


@dataclass(frozen=True, slots=True)
class Launching:
    """A launcher at work."""

    host: str
    pid: int
    since: datetime
    queue: Queued | None
    """Its place among those that share the cores of this machine, if it does."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """A launcher's spool on this machine."""

    path: str
    entries: int
    """Pieces of learning curves, and ends of runs."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A study in the queue for this machine's cores."""

    place: int
    """1, 2, ..."""
    study: str
    """Perhaps of another database."""
    pid: int
    priority: int
    since: str
    cores: int
    """That its runs have."""
    wanted: int
    """That it would have if it could."""
    behind: str | None
    """The study that it waits for before it takes more cores."""


def show_status(name: str | None, *, db: str, as_json: bool) -> None:
    """A line a study; one study's alone if it is named."""
    with reading(db) as engine:
        rows = queries.studies(engine) if name is None else [queries.study(engine, name)]
        lined_up = queued()
        launchings = [_launching(engine, row.study_id, lined_up) for row in rows]
    statuses = [study_status(*pair) for pair in zip(rows, launchings, strict=True)]
    if as_json:
        print_json([asdict(status) for status in statuses])
    elif not statuses:
        print(f"no studies in {db} yet; `sweeper launch FILE` makes one")
    else:
        print_table(
            (
                *("study", "environment", "completed", "of", "running", "failed"),
                *("last event (UTC)", "launched by"),
            ),
            [_cells(status) for status in statuses],
        )
        for status in statuses:
            for spool in status.spools:
                who = "the next launch" if status.launcher is None else "its launcher"
                print(
                    f"{status.study}: {spool.entries} entries of an outage wait in {spool.path}; "
                    f"{who} writes them"
                )
        if lined_up:
            print()
            _print_queue(lined_up)


def queued() -> list[Queued]:
    """The queue for this machine's cores, the first first."""
    tickets, usable = queue(), len(usable_cores())
    found = []
    for i, ticket in enumerate(tickets):
        other = None
        if ticket.wanted > ticket.cores:
            other = in_the_way(ahead_of(ticket, tickets), cores=ticket.cores + 1, usable=usable)
        found.append(
            Queued(
                place=i + 1,
                study=ticket.study,
                pid=ticket.pid,
                priority=ticket.priority,
                since=ticket.since,
                cores=ticket.cores,
                wanted=max(ticket.cores, ticket.wanted),
                behind=None if other is None else other.study,
            )
        )
    return found


def _launching(engine: Engine, study_id: int, lined_up: list[Queued]) -> Launching | None:
    row, here = queries.launcher(engine, study_id), socket.gethostname()
    if row is None or not is_held(row, host=here, now=utc_now()):
        return None
    mine = next((q for q in lined_up if row.host == here and q.pid == row.pid), None)
    return Launching(row.host, row.pid, row.acquired_at, mine)


def _print_queue(lined_up: list[Queued]) -> None:
    print_table(
        ("", "study", "process", "priority", "since (UTC)", "cores", "of", "waits behind"),
        [
            (
                *(str(q.place), q.study, str(q.pid), str(q.priority), q.since, str(q.cores)),
                *(str(q.wanted), q.behind or "-"),
            )
            for q in lined_up
        ],
        title=f"{len(usable_cores())} cores of this machine go to",
    )


def study_status(row: StudyRow, launching: Launching | None) -> StudyStatus:
    """The counts of a study's row."""
    counts: dict[Any, int] = dict(row.status_counts)
    running = sum(counts.get(s, 0) for s in (RunStatus.QUEUED, RunStatus.RUNNING))
    completed = counts.get(RunStatus.COMPLETED, 0)
    return StudyStatus(
        study=row.name,
        environment=row.env,
        trials=row.n_trials,
        target_trials=row.target_trials,
        completed=completed,
        running=running,
        failed=row.n_trials - completed - running,
        statuses=dict(row.status_counts),
        last_event_at=row.last_event_at,
        launcher=launching,
        spools=[Spooled(str(path), entries) for path, entries in spools(row).items()],
    )


def _cells(status: StudyStatus) -> tuple[str, ...]:
    return (
        status.study,
        status.environment,
        str(status.completed),
        "-" if status.target_trials is None else str(status.target_trials),
        str(status.running),
        str(status.failed),
        f"{status.last_event_at:%Y-%m-%d %H:%M:%S}" if status.last_event_at else "-",
        f"process {by.pid} on {by.host}" if (by := status.launcher) else "-",
    )
