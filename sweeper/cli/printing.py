"""Tables and JSON on standard output, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """A table as wide as its text; on a pipe, lines are never cut."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    table = Table(*head, title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*map(_escaped, row))
    console.print(table)


def print_json(value: Any) -> None:
    """One JSON document; timestamps as ISO 8601."""
    print(json.dumps(value, default=_plain, indent=2))


def print_json_line(value: Any) -> None:
    """One JSON document on a line of its own, at once."""
    print(json.dumps(value, default=_plain), flush=True)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _escaped(cell: str) -> str:
    return cell.replace("[", r"\[")
