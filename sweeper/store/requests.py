"""What other commands ask of a study's launcher: rows of `events`.

The launcher looks for them while it works, or when it begins. So they reach it wherever it runs,
on every database, and stay for whoever wants to know who did what when.
"""

from __future__ import annotations

import socket
from datetime import datetime

from sqlalchemy import Connection, select

from sweeper.core.errors import InputError
from sweeper.store import schema as t
from sweeper.store.lease import living_launcher
from sweeper.store.rows import LauncherRow, Stop
from sweeper.store.statements import insert_row


def ask_to_stop(connection: Connection, study_id: int, how: Stop, *, now: datetime) -> LauncherRow:
    """Ask the launcher that works on the study to end; returns who that is. Raises InputError
    if nobody does."""
    row = living_launcher(connection, study_id, host=socket.gethostname(), now=now)
    if row is None:
        name = connection.scalar(select(t.studies.c.name).where(t.studies.c.study_id == study_id))
        raise InputError(f"study {name!r} is not being launched by anyone")
    # Named, so that a launcher that comes after it takes no notice.
    insert_row(connection, t.events, at=now, study_id=study_id, kind=how, detail=row.launcher_id)
    return row
