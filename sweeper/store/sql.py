"""One SELECT of a user's own, which can do no harm."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sweeper.core.errors import DatabaseError, InputError
from sweeper.store.connect import one_line

_SELECT_ONLY = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION)
)
_INSTRUCTIONS_BETWEEN_LOOKS = 10_000
_STREAMED = {
    # PostgreSQL declares a cursor, which takes one single query and nothing that writes: not
    # even the COPY ... TO PROGRAM that a superuser's read-only transaction would run.
    "stream_results": True,
    # A % or : in the text is the user's own.
    "no_parameters": True,
}


@dataclass(frozen=True, slots=True)
class SqlResult:
    """What a query answers."""

    columns: tuple[str, ...]
    rows: Generator[tuple[Any, ...], None, None]
    """Streamed from the database; raises InputError when that fails. It holds a connection
    until it is exhausted or `close`d."""


def run_sql(
    engine: Engine, sql: str, *, max_rows: int | None = None, timeout_seconds: float = 30
) -> SqlResult:
    """Answer one query over an engine of `open_reader`.

    max_rows: rows beyond are not read; None reads all. timeout_seconds: for the whole answer
    on SQLite, and for each piece of it on PostgreSQL.
    Raises InputError, with the database's own message, for SQL that fails, that is not one
    single statement, that takes too long, or that would do anything but read.
    """
    answer = _answer(engine, sql, max_rows, timeout_seconds)
    columns = next(answer)  # runs it, so that an error is raised here
    return SqlResult(columns, answer)


def _answer(
    engine: Engine, sql: str, max_rows: int | None, timeout_seconds: float
) -> Generator[tuple[Any, ...], None, None]:
    """The column names, then each row."""
    sqlite = engine.dialect.name == "sqlite"
    confined = _confined_sqlite if sqlite else _confined_postgresql
    try:
        with (
            engine.connect() as connection,
            connection.begin(),
            confined(connection, timeout_seconds),
            connection.exec_driver_sql(sql, execution_options=_STREAMED) as result,
        ):
            if not result.returns_rows:
                raise InputError("that SQL answers with no rows; give one SELECT")
            yield tuple(result.keys())
            for row in islice(result, max_rows):
                yield tuple(row)
    except (SQLAlchemyError, DatabaseError, sqlite3.Warning, ValueError) as error:
        raise InputError(_explain(error, timeout_seconds)) from error


@contextmanager
def _confined_sqlite(connection: Connection, timeout_seconds: float) -> Iterator[None]:
    """Until left, the connection prepares nothing but SELECT, and stops when time is up."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    deadline = time.monotonic() + timeout_seconds
    raw.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS_BETWEEN_LOOKS)
    raw.set_authorizer(_authorize)
    try:
        yield
    finally:
        raw.set_authorizer(None)
        raw.set_progress_handler(None, 0)


@contextmanager
def _confined_postgresql(connection: Connection, timeout_seconds: float) -> Iterator[None]:
    """The transaction is read-only already; here it also gets its time limit, and plans for
    whole answers: for a cursor PostgreSQL would plan to have the first rows soon, which of a
    front of 10,000 trials takes it a minute."""
    connection.exec_driver_sql(
        f"SET LOCAL statement_timeout = {max(1, int(timeout_seconds * 1000))}; "
        "SET LOCAL cursor_tuple_fraction = 1.0"
    )
    yield


def _authorize(action: int, _one: object, two: object, _three: object, _four: object) -> int:
    loads_code = action == sqlite3.SQLITE_FUNCTION and two == "load_extension"
    allowed = action in _SELECT_ONLY and not loads_code
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _explain(error: BaseException, timeout_seconds: float) -> str:
    """One line: the database's own words, or what they mean."""
    if isinstance(error, DatabaseError) and error.__cause__ is not None:
        error = error.__cause__
    words = one_line(error.orig if isinstance(error, DBAPIError) and error.orig else error)
    if words == "interrupted" or "statement timeout" in words:
        return f"the query took longer than {timeout_seconds:g} s"
    if "not authorized" in words or "prohibited" in words:
        return f"only one SELECT is run: {words}"
    return f"the database refused the query: {words}"
