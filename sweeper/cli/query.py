"""`sweeper query`: SQL over the results, read-only."""

from __future__ import annotations

import csv
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweeper.cli.printing import plain, print_json
from sweeper.cli.reading import reading
from sweeper.cli.table import print_table
from sweeper.core.errors import InputError
from sweeper.report.export import write_parquet
from sweeper.store.questions import all_questions, question
from sweeper.store.sql import run_sql


def read_sql(sql: str | None, file: Path | None) -> str:
    """The query from the command line, by its name, from a file, or (`-`) from standard input."""
    if (sql is None) == (file is None):
        raise InputError("give the query itself or --file FILE: one of them")
    if sql == "-":
        return sys.stdin.read()
    if file is None:
        assert sql is not None
        return question(sql).sql if re.fullmatch(r"[a-z][a-z-]*", sql) else sql
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not UTF-8 text") from error


def list_questions(*, as_json: bool) -> None:
    """Print the named queries."""
    if as_json:
        print_json([asdict(each) for each in all_questions()])
    else:
        print_table(("name", "question"), [(each.name, each.question) for each in all_questions()])


def run_query(
    sql: str, *, db: str, as_csv: bool, as_json: bool, parquet: Path | None = None
) -> None:
    """Answer one SELECT as a table, CSV or JSON, or in a Parquet file."""
    if as_csv + as_json + (parquet is not None) > 1:
        raise InputError("give one of --csv, --json and --parquet")
    with reading(db) as engine:
        result = run_sql(engine, sql)
        if parquet is not None:
            _require_distinct(result.columns)
            columns = zip(*result.rows, strict=True)
            table = dict(zip(result.columns, columns, strict=False)) or {}
            write_parquet(parquet, {name: table.get(name, ()) for name in result.columns})
            print(f"wrote {parquet}")
        elif as_csv:
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
