"""Opening a database by URL, for writing or for reading, with errors that say what to do.

SQLite is opened in WAL mode, so that readers never wait for the writer. A reader is held to
reading by the database itself, not by our good manners.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.pool import QueuePool

from sweeper.core.errors import DatabaseAwayError, DatabaseError
from sweeper.store.schema import REVISION

BUSY_SECONDS = 30
"""How long to wait for another process's write, and for a slow read on PostgreSQL."""
BUSY_OPTION = "busy_seconds"
"""Execution option: less than BUSY_SECONDS for a write to SQLite that need not succeed."""
CONNECT_SECONDS = 10
"""How long to wait for a PostgreSQL server that does not answer."""
_KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
"""A connection whose other end has vanished is given up after about half a minute."""
_LONGEST_VALUE_BYTES = 64 * 2**20
_READ_ONLY_TRANSACTION = "25006"
"""PostgreSQL's code where it takes no writes: a standby, or a server that has run out of room."""
_MISTAKES = ("no such ", "near ", "unrecognized token", "SQL logic error", "too many terms")
"""How SQLite's messages about a statement begin; the driver has one class for all errors."""

_NETWORK_FILE_SYSTEM = re.compile(
    r"(fuse\.)?(afs|beegfs|ceph|cifs|glusterfs|gpfs|lustre|nfs4?|smb3|smbfs|sshfs)"
)
_REMEDIES = {
    "unable to open": "does its folder exist, and may you read and write there?",
    "readonly": "give write permission, or name another database with --db",
    "not a database": "name another database with --db",
    "malformed": "the file is damaged; restore a copy, or name another database with --db",
    "locked": "another process holds it; end that one, or try again",
    "disk is full": "make room on that disk",
    "does not exist": "create it first (createdb), or name another with --db",
    "connection to server": "is the server running, and are host, port, user and password right?",
    "resolve host": "is the name of the host right?",
}


def open_writer(url: str) -> Engine:
    """An engine whose transactions may write. On SQLite, the file need not exist yet.

    Raises DatabaseError for a URL that is none, a folder that does not exist, a file that is
    another's, which is left as it is, or a network file system, where WAL corrupts.
    """
    parsed = parse_url(url)
    if parsed.drivername != "sqlite":
        # Nothing waits for the disk at each commit: a crash of the server may take the last moments
        # of learning curves. What may not be lost is said to be durable (`Store`). SQLite's
        # `synchronous = NORMAL` below loses something only with the machine's power.
        return _postgresql(parsed, options="-c TimeZone=UTC -c synchronous_commit=off")
    path = _sqlite_path(parsed)
    if kind := network_file_system(path, Path("/proc/self/mounts")):
        raise DatabaseError(
            f"{url}: SQLite is not safe on a network file system ({kind}); "
            "name a file on a local disk, or PostgreSQL, with --db"
        )
    if path.exists():
        _require_ours(url)  # before WAL mode is set, which stays with the file
    engine = _engine(parsed, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _prepare_sqlite_writer)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def open_read_only(url: str) -> Engine:
    """An engine that the database itself keeps from writing; it creates nothing.

    Raises DatabaseError for a URL that is none, or a file that does not exist.
    """
    parsed = parse_url(url)
    if parsed.drivername != "sqlite":
        return _postgresql(
            parsed,
            options=f"-c TimeZone=UTC -c statement_timeout={BUSY_SECONDS * 1000}",
            isolation_level="REPEATABLE READ",
            execution_options={"postgresql_readonly": True},
        )
    path = _sqlite_path(parsed)
    if not path.exists():
        raise DatabaseError(
            f"{url}: there is no such file; `sweeper launch` creates it, or name another with --db"
        )

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            _read_only_uri(path), uri=True, timeout=BUSY_SECONDS, check_same_thread=False
        )

    engine = _engine(parsed, creator=connect, poolclass=QueuePool)
    event.listen(engine, "connect", _prepare_sqlite_reader)
    event.listen(engine, "begin", _begin)
    return engine


def parse_url(url: str) -> URL:
    """The parsed URL, its driver named. Raises DatabaseError for any other database."""
    allowed = "sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
    try:
        parsed = make_url(url)
    except ArgumentError:  # its text may hold a password
        raise DatabaseError(f"the database must be {allowed}; the given text is no URL") from None
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise DatabaseError(f"the database must be {allowed}, got {display_url(parsed)}")
    if parsed.database in (None, "", ":memory:"):
        raise DatabaseError(f"the database must be a file, as in sqlite:///sweeper.db, got {url}")
    return parsed.set(drivername="sqlite")


def display_url(url: URL) -> str:
    """The URL without its password, nor its query, where one may hide too."""
    return url.set(query={}).render_as_string(hide_password=True)


def schema_revision(connection: Connection) -> str | None:
    """The revision of this database; None when it is empty.

    Raises DatabaseError for a database that holds something else.
    """
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    revision = None
    if "alembic_version" in tables and "study_versions" in tables:
        revision = connection.scalar(text("SELECT version_num FROM alembic_version"))
    if not isinstance(revision, str) or not re.fullmatch(r"\d{4}", revision):
        raise DatabaseError(
            f"{display_url(connection.engine.url)}: holds tables that are not sweeper's; "
            "name another database with --db"
        )
    return revision


def require_current(connection: Connection) -> None:
    """Raise DatabaseError unless the schema is the one that this release reads and writes."""
    revision, where = schema_revision(connection), display_url(connection.engine.url)
    if revision is None:
        raise DatabaseError(f"{where}: is empty; `sweeper launch` fills it")
    if revision < REVISION:
        raise DatabaseError(
            f"{where}: has the schema {revision} of an older sweeper, this one needs {REVISION}; "
            f"type `sweeper db upgrade --db {where}`"
        )
    if revision > REVISION:
        raise DatabaseError(
            f"{where}: has the schema {revision} of a newer sweeper, this one knows {REVISION}; "
            "install the newer release"
        )


def network_file_system(path: Path, mounts: Path) -> str | None:
    """The type of the network file system that `path` is on, else None.

    `mounts` is in the format of /proc/self/mounts; without it (not Linux) nothing is known.
    """
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    resolved = path.resolve()
    point, kind = "", ""
    for line in lines:
        _, mounted, fstype, *_ = line.split(" ")
        mounted = mounted.replace("\\040", " ")
        # Later mounts hide earlier ones at the same point.
        if resolved.is_relative_to(mounted) and len(mounted) >= len(point):
            point, kind = mounted, fstype
    return kind if _NETWORK_FILE_SYSTEM.fullmatch(kind) else None


def one_line(error: BaseException) -> str:
    """The database's own message, without SQL, parameters or further lines."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _postgresql(url: URL, *, options: str, **engine_options: Any) -> Engine:
    # It warns of what it gives up with a broken connection, whose error is raised all the same.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    return _engine(
        url,
        connect_args={"options": options, "connect_timeout": CONNECT_SECONDS} | _KEEPALIVE,
        pool_pre_ping=True,  # a server that was restarted is found again
        **engine_options,
    )


def _engine(url: URL, **options: Any) -> Engine:
    try:
        engine = create_engine(url, **options)
    except ModuleNotFoundError as error:
        raise DatabaseError(
            f"{display_url(url)}: needs psycopg; type `pip install 'sweeper[postgres]'`"
        ) from error
    where = display_url(url)

    def explain(context: ExceptionContext) -> None:
        """Turn what befalls a database into one line; mistakes in our SQL stay what they are."""
        error = context.sqlalchemy_exception
        if context.is_pre_ping:  # a stale connection, which the pool is about to replace
            return
        if isinstance(error, DBAPIError) and not isinstance(
            error, IntegrityError | ProgrammingError
        ):
            message = one_line(context.original_exception)
            remedy = next((hint for sign, hint in _REMEDIES.items() if sign in message), None)
            kind = DatabaseAwayError if _is_away(error, message) else DatabaseError
            raise kind(f"{where}: {message}" + (f"; {remedy}" if remedy else ""))

    event.listen(engine, "handle_error", explain)
    return engine


def _is_away(error: DBAPIError, message: str) -> bool:
    """Whether the same statement may succeed later."""
    if getattr(error.orig, "sqlstate", None) == _READ_ONLY_TRANSACTION:
        return True
    return isinstance(error, OperationalError | InterfaceError) and not message.startswith(
        _MISTAKES
    )


def _require_ours(url: str) -> None:
    engine = open_read_only(url)
    try:
        with engine.connect() as connection:
            schema_revision(connection)
    finally:
        engine.dispose()


def _sqlite_path(url: URL) -> Path:
    assert url.database is not None
    path = Path(url.database).absolute()
    if not path.parent.is_dir():
        raise DatabaseError(f"{display_url(url)}: there is no folder {path.parent}")
    if path.is_dir():
        raise DatabaseError(f"{display_url(url)}: is a folder; name a file in it with --db")
    return path


def _read_only_uri(path: Path) -> str:
    """A WAL database needs a shared-memory file beside it. An archive in a folder that cannot
    be written has none; there, and with no log to replay, the file can be declared immutable.
    """
    wal = path.with_name(path.name + "-wal")
    effective = os.access in os.supports_effective_ids
    writable = os.access(path.parent, os.W_OK, effective_ids=effective)
    has_log = wal.exists() and wal.stat().st_size > 0
    immutable = "" if writable or has_log else "&immutable=1"
    return f"file:{quote(str(path))}?mode=ro{immutable}"


def _prepare_sqlite_writer(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's implicit transactions begin late and upgrade a read lock, which fails at
    # once under contention instead of waiting; `_begin_immediate` begins them instead.
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_sqlite_reader(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA query_only = ON")
    # A query of one line (zeroblob, printf) could otherwise take gigabytes of memory.
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)


def _begin_immediate(connection: Connection) -> None:
    patience = connection.get_execution_options().get(BUSY_OPTION, BUSY_SECONDS)
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {1000 * patience:.0f}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")
