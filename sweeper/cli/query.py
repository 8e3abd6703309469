"""`sweeper query`: SQL over the results, read-only."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from sweeper.cli.printing import plain, print_json
from sweeper.cli.reading import reading
from sweeper.cli.table import print_table
from sweeper.core.errors import InputError
from sweeper.store.sql import run_sql


def read_sql(sql: str | None, file: Path | None) -> str:
    """The query from the command line, from a file, or (`-`) from standard input."""
    if (sql is None) == (file is None):
        raise InputError("give the query itself or --file FILE: one of them")
    if sql == "-":
        return sys.stdin.read()
    if file is None:
        assert sql is not None
        return sql
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not UTF-8 text") from error


def run_query(sql: str, *, db: str, as_csv: bool, as_json: bool) -> None:
    """Answer one SELECT as a table, CSV or JSON."""
    if as_csv and as_json:
        raise InputError("give --csv or --json, not both")
    with reading(db) as engine:
        result = run_sql(engine, sql)
        if as_csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(result.columns)
            writer.writerows(map(plain, result.rows))
        elif as_json:
            _require_distinct(result.columns)
            print_json([dict(zip(result.columns, row, strict=True)) for row in result.rows])
        else:
            print_table(result.columns, ([_cell(value) for value in row] for row in result.rows))


def _require_distinct(columns: tuple[str, ...]) -> None:
    for name in columns:
        if columns.count(name) > 1:
            raise InputError(f"two columns are called {name!r}; name them apart with AS")


def _cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
