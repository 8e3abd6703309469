"""`sweeper reap`: end what launchers left behind that died with their reaper, or their machine."""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

import psutil

from sweeper.cli.printing import print_json
from sweeper.cli.reading import reading
from sweeper.cli.table import print_table
from sweeper.core.clock import utc_now
from sweeper.store import launches, queries
from sweeper.store.lease import LauncherBusyError, is_held
from sweeper.store.rows import StudyRow
from sweeper.store.store import Store
from sweeper.study import reaper


@dataclass(frozen=True, slots=True)
class Left:
    """Something that a dead launcher left behind."""

    kind: str
    """process | session | runs."""
    what: str
    launcher: str
    """Who it was."""


def reap(db: str | None, *, dry_run: bool, as_json: bool) -> None:
    """End processes, remove Ray's folders and give up runs, of launchers that are dead.

    Processes and folders are those of this machine and this user; runs are those of the
    database, None for no database. What belongs to a living launcher is left alone.
    """
    studies = [] if db is None else _abandoned(db)
    found = [*_left_here(), *(Left("runs", what, who) for _, what, who in studies)]
    if not dry_run:
        reaper.end(lambda: [process for process, mark in reaper.processes() if mark.is_dead])
        for folder, mark in reaper.sessions():
            if mark.is_dead:
                shutil.rmtree(folder, ignore_errors=True)
        if db is not None:
            for study, _, _ in studies:
                _give_up(db, study.study_id)
    if as_json:
        print_json({"ended": not dry_run, "left_behind": [asdict(left) for left in found]})
    elif not found:
        print("nothing is left behind")
    else:
        print_table(
            ("kind", "what", "of launcher"),
            [(left.kind, left.what, left.launcher) for left in found],
            title="would end:" if dry_run else "ended:",
        )


def _left_here() -> Iterator[Left]:
    for process, mark in reaper.processes():
        with suppress(psutil.Error):
            if mark.is_dead:
                yield Left("process", f"{process.pid} {process.name()}", _who(mark))
    for folder, mark in reaper.sessions():
        if mark.is_dead:
            yield Left("session", str(folder), _who(mark))


def _who(mark: reaper.Mark) -> str:
    return f"process {mark.pid}, begun {mark.started_at:%Y-%m-%d %H:%M:%S} UTC"


def _abandoned(db: str) -> list[tuple[StudyRow, str, str]]:
    """Studies with unfinished runs that nobody launches: the study, what it has, whose it was."""
    here, found = socket.gethostname(), []
    with reading(db) as engine:
        for study in queries.studies(engine):
            row = queries.launcher(engine, study.study_id)
            n = launches.count_unfinished_runs(engine, study.study_id)
            if n and (row is None or not is_held(row, host=here, now=utc_now())):
                who = "unknown" if row is None else f"process {row.pid} on {row.host}"
                found.append((study, f"{n} of {study.name!r}", who))
    return found


def _give_up(db: str, study_id: int) -> None:
    """As the next launch would; it is free to begin meanwhile, and then does so itself."""
    me = uuid.uuid4().hex
    with suppress(LauncherBusyError), Store.open(db) as store:
        store.acquire_lease(study_id, launcher_id=me, host=socket.gethostname(), pid=os.getpid())
        for run_id in store.mark_lost(study_id, "its launcher died"):
            store.add_event("lost", study_id=study_id, run_id=run_id)
        store.release_lease(study_id, launcher_id=me)
