"""The launcher's lease: at most one launcher works on a study.

A launcher renews its lease while it lives. One that died is told by its process where that
can be looked at (the same host), and elsewhere by its lease running out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update

from sweeper.core.errors import InputError, SweeperError
from sweeper.store.rows import LauncherRow
from sweeper.store.schema import launchers, studies
from sweeper.trial.alive import is_alive, start_of


class LauncherBusyError(InputError):
    """Another launcher holds the study; the message names it, and since when."""


class LeaseLostError(SweeperError):
    """This launcher no longer holds its study, and may write nothing more."""


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
    row = living_launcher(connection, study_id, host=host, now=now)
    if row is not None and row.launcher_id != launcher_id:
        raise _busy(connection, study_id, row)


def is_held(lease: LauncherRow, *, host: str, now: datetime) -> bool:
    """Whether the launcher of a lease still works, as far as can be told on `host`."""
    if lease.lease_until <= now:
        return False
    return lease.host != host or is_alive(lease.pid, lease.pid_started_at)


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
            pid_started_at=start_of(holder.pid),
            acquired_at=now,
            lease_until=now + timedelta(seconds=seconds),
        )
    )


def renew(
    connection: Connection, study_id: int, launcher_id: str, *, now: datetime, seconds: float
) -> None:
    """Extend a lease to `now + seconds`; raise LeaseLostError if it is another's by now."""
    require_held(connection, study_id, launcher_id)
    connection.execute(
        update(launchers)
        .where(launchers.c.study_id == study_id)
        .values(lease_until=now + timedelta(seconds=seconds))
    )


def require_held(connection: Connection, study_id: int, launcher_id: str) -> None:
    """Raise LeaseLostError unless the study is still this launcher's: one that was stopped for
    longer than its lease, or cut off, learns that it was taken for dead."""
    row = _current(connection, study_id)
    if row is not None and row.launcher_id == launcher_id:
        return
    by = "" if row is None else f" by process {row.pid} on {row.host}"
    name = connection.scalar(select(studies.c.name).where(studies.c.study_id == study_id))
    raise LeaseLostError(
        f"study {name!r} was taken over{by}, as this launcher was not heard of for too long; "
        "it stands down"
    )


def living_launcher(
    connection: Connection, study_id: int, *, host: str, now: datetime
) -> LauncherRow | None:
    """The launcher that works on the study, as far as can be told on `host`."""
    row = _current(connection, study_id)
    return row if row is not None and is_held(row, host=host, now=now) else None


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


def _busy(connection: Connection, study_id: int, row: LauncherRow) -> LauncherBusyError:
    name = connection.scalar(select(studies.c.name).where(studies.c.study_id == study_id))
    return LauncherBusyError(
        f"study {name!r} is being launched by process {row.pid} on {row.host} "
        f"since {row.acquired_at:%Y-%m-%d %H:%M:%S} UTC; end that one, or wait until "
        f"{row.lease_until:%H:%M:%S} UTC if it is dead"
    )
