"""Tables as text: as wide as they are on a pipe, fitted to the window on a terminal."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.cells import cell_len

GAP = "  "
_NUMBER = re.compile(r"[-+−]?[\d,]*\.?\d+(e[-+]?\d+)?( ?(%|s|B|kB|MB|GB))?")
_BLANK = ("", "-", "–")
_PIECE = re.compile(r"[^ _./]+[ _./]*|[ _./]+")


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """A table on standard output; no cell is ever cut."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if title:
        print(title)
    print("\n".join(table_lines(head, list(rows), width=width)))


def table_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None
) -> list[str]:
    """The lines of a table, numbers to the right.

    In a `width` that is too narrow, heads are broken at spaces, `_`, `.` and `/`; where that
    is not enough, each row becomes a list of its cells, one a line.
    """
    head = [_printable(name) for name in head]
    rows = [[_printable(cell) for cell in row] for row in rows]
    columns = [[row[i] for row in rows] for i in range(len(head))]
    broken = [max(map(cell_len, _PIECE.findall(name) or [""])) for name in head]
    least = [max([b, *map(cell_len, cells)]) for b, cells in zip(broken, columns, strict=True)]
    widths = [max(cell_len(name), n) for name, n in zip(head, least, strict=True)]
    gaps = len(GAP) * (len(head) - 1)
    if width is not None:
        if sum(least) + gaps > width:
            return _as_lists(head, rows)
        while sum(widths) + gaps > width:
            widest = max(range(len(widths)), key=lambda i: widths[i] - least[i])
            widths[widest] -= 1
    right = [_is_numeric(cells) for cells in columns]
    heads = [_broken(name, n) for name, n in zip(head, widths, strict=True)]
    height = max(map(len, heads), default=0)
    heads = [[""] * (height - len(lines)) + lines for lines in heads]
    return [
        *(_line(cells, widths, right) for cells in zip(*heads, strict=True)),
        GAP.join("─" * n for n in widths),
        *(_line(row, widths, right) for row in rows),
    ]


def _as_lists(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    names = max(map(cell_len, head))
    lines: list[str] = []
    for row in rows:
        lines += ["─" * names] if lines else []
        lines += [
            f"{_padded(name, names)}{GAP}{cell}".rstrip()
            for name, cell in zip(head, row, strict=True)
        ]
    return lines


def _broken(name: str, width: int) -> list[str]:
    lines = [""]
    for piece in _PIECE.findall(name):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        _padded(cell, width, right=to_right)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return GAP.join(padded).rstrip()


def _padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _is_numeric(cells: Sequence[str]) -> bool:
    return all(cell in _BLANK or _NUMBER.fullmatch(cell) for cell in cells)


def _printable(text: str) -> str:
    """On one line, and without a word to the terminal: a reason may hold what an environment
    printed."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
