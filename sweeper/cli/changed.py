"""What to tell the user whose study file is not the one that was launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeper.core.errors import InputError, SpecError
from sweeper.store.versions import StudyChangedError
from sweeper.study.complaint import shown
from sweeper.study.document import Document
from sweeper.study.parse import parse
from sweeper.study.spec import MEANINGLESS

REMEDY = (
    "change it back, give the study another name, or accept it with --new-version "
    "(earlier trials stay)"
)


def explain_change(error: StudyChangedError, document: Document, name: str) -> InputError:
    """The first key that differs from the stored file, at its line."""
    stored, _ = parse(error.stored_yaml)
    path = _first_difference(document.data, stored)
    if path is None:
        return SpecError(
            f"{document.name}: study {name!r} was launched with other --set values; {REMEDY}"
        )
    return document.error(
        ".".join(path),
        f": is {_value(document.data, path)}, was {_value(stored, path)} when study {name!r} "
        f"was launched (version {error.version}); {REMEDY}",
    )


def _first_difference(now: Any, before: Any, path: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    if not (isinstance(now, Mapping) and isinstance(before, Mapping)):
        return None if now == before else path
    for key in dict.fromkeys((*now, *before)):
        if not path and key in MEANINGLESS:
            continue
        if key not in now or key not in before:
            return (*path, key)
        found = _first_difference(now[key], before[key], (*path, key))
        if found is not None:
            return found
    return None


def _value(data: Any, path: tuple[str, ...]) -> str:
    for key in path:
        if not isinstance(data, Mapping) or key not in data:
            return "not given"
        data = data[key]
    return shown(data)
