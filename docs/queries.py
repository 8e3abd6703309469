"""Write queries.md from the named queries and a database: python docs/queries.py --db URL"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from sweeper.store.queries import open_reader
from sweeper.store.questions import Question, all_questions
from sweeper.store.sql import run_sql

PAGE = Path(__file__).parent / "queries.md"
MAX_ROWS = 8
_LONGEST_CELL = 70

HEAD = """# Questions and their SQL

Each of these is a named query: `sweeper query --list` lists them, `sweeper query NAME` answers
one (`--csv`, `--json`, `--parquet FILE`), and the dashboard's Query page offers them all. They
run on SQLite and on PostgreSQL alike, over every study of the database; add a `WHERE study =
'...'` of your own. What each table, view and column means is in [schema.md](schema.md).

The answers below are those of one run of `studies/quickstart.yaml`, shortened to
{rows} rows: they show the shape of an answer, not a result to rely on. `python docs/queries.py
--db URL` writes this page anew from another database.

In a notebook the same answers are pandas frames:

```python
import sweeper

with sweeper.open("sqlite:///sweeper.db") as results:
    results.trials("quickstart")      # the view trial_results, a column a searched parameter
    results.front("quickstart")       # its front
    results.curves("quickstart", 2)   # the learning curves of trial 2
    results.sql("SELECT ...")
    results.pareto("quickstart")      # the dashboard's figure
```
"""


def page(engine: Engine) -> str:
    """queries.md, with the answers of this database."""
    sections = [_section(each, engine) for each in all_questions()]
    return "\n".join([HEAD.format(rows=MAX_ROWS), *sections])


def _section(each: Question, engine: Engine) -> str:
    result = run_sql(engine, each.sql, max_rows=MAX_ROWS)
    answer = [result.columns, *(tuple(map(_cell, row)) for row in result.rows)]
    body = _table(answer) if len(answer) > 1 else "(no rows)"
    return f"## {each.name}\n\n{each.question}\n\n```sql\n{each.sql}\n```\n\n```\n{body}\n```\n"


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--db", required=True, help="a database with a finished study")
    database = open_reader(options.parse_args().db)
    PAGE.write_text(page(database), encoding="utf-8")
    database.dispose()
