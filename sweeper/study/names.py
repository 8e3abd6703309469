"""What a study may be called: printable text that an address of the dashboard can end in."""

from __future__ import annotations

import re

_VANISHES = re.compile(r"(.*/)?\.\.?(/.*)?")
"""Browsers resolve `.` and `..` before they ask."""
_PAGE = re.compile(
    r".*/(anytime|changes|compare(/curves|/phases)?|export\.json|hypervolume|importances|parallel"
    r"|pareto|timeline|trial/[^/]+(/curve|/phases/[^/]+)?|trials\.csv)"
)
"""What the dashboard appends to a name for what is to be seen of the study."""


def name_fault(name: str) -> str | None:
    """What is wrong with a study's name, as the end of a sentence; None for a good one."""
    if not name.isprintable() or name != name.strip():
        return "must be printable text without spaces around it"
    if _VANISHES.fullmatch(name):
        return f"must have no part `.` or `..` between slashes: no address can hold {name!r}"
    if page := _PAGE.fullmatch(name):
        return f"must not end in `/{page[1]}`: the dashboard's addresses of other studies do"
    return None
