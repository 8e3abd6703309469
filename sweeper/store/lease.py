"""The launcher's lease: at most one launcher works on a study.

A launcher renews its lease while it lives. One that died is told by its process where that
can be looked at (the same host), and elsewhere by its lease running out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta

import psutil
from sqlalchemy import Connection, delete, insert, select, update

from sweeper.core.errors import InputError
from sweeper.store.rows import LauncherRow
from sweeper.store.schema import launchers, studies

_START_TOLERANCE = timedelta(seconds=2)
"""The kernel's start times drift by this much against the wall clock."""


class LauncherBusyError(InputError):
    """Another launcher holds the study; the message names it, and since when."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A launcher: a random name, and the process behind it."""

    launcher_id: str
    host: str
    pid: int


def require_free(
    connection: Connection,
    study_id: int,
    *,
    host: str,
    now: datetime,
    launcher_id: str | None = None,
) -> None:
    """Raise LauncherBusyError while a launcher other than `launcher_id` holds the study.

    host: this machine, where the process behind a lease can be looked for.
    """
    row = _current(connection, study_id)
    if row is None or row.launcher_id == launcher_id:
        return
    if is_held(row, host=host, now=now):
        raise _busy(connection, study_id, row)


def is_held(lease: LauncherRow, *, host: str, now: datetime) -> bool:
    """Whether the launcher of a lease still works, as far as can be told on `host`."""
    if lease.lease_until <= now:
        return False
    return lease.host != host or _is_alive(lease.pid, lease.pid_started_at)


def acquire(
    connection: Connection, study_id: int, holder: Holder, *, now: datetime, seconds: float
) -> None:
    """Give `holder` the study until `now + seconds`, or raise LauncherBusyError."""
    require_free(connection, study_id, host=holder.host, now=now, launcher_id=holder.launcher_id)
    connection.execute(delete(launchers).where(launchers.c.study_id == study_id))
    connection.execute(
        insert(launchers).values(
            study_id=study_id,
            **asdict(holder),
            pid_started_at=_started_at(holder.pid),
            acquired_at=now,
            lease_until=now + timedelta(seconds=seconds),
        )
    )


def renew(
    connection: Connection, study_id: int, launcher_id: str, *, now: datetime, seconds: float
) -> None:
    """Extend a lease to `now + seconds`; raise LauncherBusyError if it is another's by now."""
    renewed = connection.execute(
        update(launchers)
        .where(launchers.c.study_id == study_id, launchers.c.launcher_id == launcher_id)
        .values(lease_until=now + timedelta(seconds=seconds))
    )
    if renewed.rowcount == 0:
        raise _busy(connection, study_id, _current(connection, study_id))


def release(connection: Connection, study_id: int, launcher_id: str) -> None:
    """End a lease, if it is this launcher's."""
    connection.execute(
        delete(launchers).where(
            launchers.c.study_id == study_id, launchers.c.launcher_id == launcher_id
        )
    )


def _current(connection: Connection, study_id: int) -> LauncherRow | None:
    columns = (launchers.c[field.name] for field in fields(LauncherRow))
    query = select(*columns).where(launchers.c.study_id == study_id)
    row = connection.execute(query).first()
    return None if row is None else LauncherRow(*row)


def _busy(connection: Connection, study_id: int, row: LauncherRow | None) -> LauncherBusyError:
    name = connection.scalar(select(studies.c.name).where(studies.c.study_id == study_id))
    if row is None:
        return LauncherBusyError(f"study {name!r}: this launcher's lease was released")
    return LauncherBusyError(
        f"study {name!r} is being launched by process {row.pid} on {row.host} "
        f"since {row.acquired_at:%Y-%m-%d %H:%M:%S} UTC; end that one, or wait until "
        f"{row.lease_until:%H:%M:%S} UTC if it is dead"
    )


def _is_alive(pid: int, started_at: datetime | None) -> bool:
    """Whether the process that had this pid, and began then, still runs."""
    now_started_at = _started_at(pid)
    if now_started_at is None:
        return False
    return started_at is None or abs(now_started_at - started_at) <= _START_TOLERANCE


def _started_at(pid: int) -> datetime | None:
    """When the process began; None if there is none, or only its zombie."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return datetime.fromtimestamp(process.create_time(), UTC)
    except psutil.NoSuchProcess:
        return None
