"""Named queries: what people ask of a study, each a SQL file that runs on both databases.

A file's first comment is its question. docs/queries.md shows them all with their answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from sweeper.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Question:
    """A named query."""

    name: str
    question: str
    sql: str


@cache
def all_questions() -> tuple[Question, ...]:
    """Every named query, in the order in which they are documented."""
    folder = sorted(files(__name__).iterdir(), key=lambda file: file.name)
    return tuple(
        _read(file.name, file.read_text()) for file in folder if file.name.endswith(".sql")
    )


def question(name: str) -> Question:
    """The query of that name. Raises InputError that names the nearest."""
    found = {each.name: each for each in all_questions()}
    if name in found:
        return found[name]
    near = get_close_matches(name, found, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "; `sweeper query --list` lists them"
    raise InputError(f"there is no query named {name!r}{hint}")


def _read(file: str, text: str) -> Question:
    """`07-what-limits.sql`, whose leading comment lines are the question."""
    lines = text.strip().splitlines()
    comment = [line for line in lines if line.startswith("--")]
    body = [line for line in lines if not line.startswith("--")]
    name = file.removesuffix(".sql").partition("-")[2]
    return Question(name, " ".join(line[2:].strip() for line in comment), "\n".join(body))
