"""docs/schema.md, complete: it repeats the schema's own words for every table and column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sweeper.store import schema, views

DOCUMENT = (Path(__file__).parents[2] / "docs" / "schema.md").read_text()
SECTIONS = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))


def row(column) -> str:
    """A column as a line of its table's section."""
    kind = {"Real": "real", "Count": "integer", "Integer": "integer", "Timestamp": "timestamp"}
    name = type(column.type).__name__
    optional = ", null" if column.nullable else ""
    comment = column.comment.replace("|", "\\|")
    return f"| `{column.name}` | {kind.get(name, name.lower())}{optional} | {comment} |"


@pytest.mark.parametrize("table", schema.metadata.sorted_tables, ids=str)
def test_every_column_of_every_table_is_documented(table):
    section = SECTIONS[table.name]
    assert table.comment in section
    documented = [line for line in section.splitlines() if line.startswith("| `")]
    assert documented == [row(column) for column in table.c]


@pytest.mark.parametrize("view", views.VIEW_COLUMNS)
def test_every_column_of_every_view_is_documented(view):
    documented = set(re.findall(r"`(\w+)`", SECTIONS[view]))
    if "of `trial_results`" in SECTIONS[view]:
        documented |= set(views.VIEW_COLUMNS["trial_results"])
    for table in re.findall(r"[Ee]very\s+column of `(\w+)`", SECTIONS[view]):
        documented |= set(schema.metadata.tables[table].c.keys())
    assert set(views.VIEW_COLUMNS[view]) <= documented


def test_nothing_is_documented_that_does_not_exist():
    assert set(SECTIONS) == set(schema.metadata.tables) | set(views.VIEW_COLUMNS)
