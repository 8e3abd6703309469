"""A study file as read: plain data, and where each key was written.

Every complaint about the data is one line that begins with that place:
`studies/x.yaml:12: parallelism.n_envs must be at least 1, got 0`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML

from sweeper.core.errors import SpecError
from sweeper.core.spec import Spec
from sweeper.study.complaint import complaint
from sweeper.study.parse import ParseError, parse

SpecT = TypeVar("SpecT", bound=Spec)


@dataclass(frozen=True)
class Document:
    """A mapping and its sources. Paths are dotted; list items go by their index."""

    name: str
    """The file, as the user wrote it."""
    text: str
    data: Mapping[str, Any]
    places: Mapping[str, str]
    """Path -> "file:line", or the override that set it."""

    def error(self, path: str, message: str) -> SpecError:
        """An error about the key at `path`, at the line of it or of its nearest parent.

        `message` continues the path ("must be at least 1"), or stands by itself after a
        colon when it begins with one. The section `trial` goes without saying: its keys are
        named as `search` and `--set` name them.
        """
        place, at = self.name, path
        while at:
            if at in self.places:
                place = self.places[at]
                break
            at = at.rpartition(".")[0]
        shown = path.removeprefix("trial.")
        return _error(f"{place}: {shown}{'' if message.startswith(':') else ' '}{message}")

    def override(self, assignment: str, *, section: str = "") -> Document:
        """This document with `path=value` set, the value read as YAML.

        The path may leave out the `section` that it is in. Mappings on the way are made as
        needed. Raises SpecError.
        """
        place = f"--set {assignment}"
        path, equals, value_text = assignment.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")):
            raise _error(f"{place}: must be path=value, for example parallelism.n_envs=4")
        if section and path.split(".")[0] != section:
            path = f"{section}.{path}"
        try:
            value, _ = parse(value_text)
        except ParseError as error:
            raise _error(f"{place}: the value {error}") from None
        data = copy.deepcopy(dict(self.data))
        _assign(data, path, value, place)
        kept = {
            key: origin
            for key, origin in self.places.items()
            if key != path and not key.startswith(f"{path}.")
        }
        parents = {path[:dot]: place for dot, c in enumerate(path) if c == "."}
        return replace(self, data=data, places={**parents, **kept, path: place})


def read_document(path: str | Path) -> Document:
    """Read a YAML file whose top level is a mapping. Raises SpecError, one line."""
    name = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise _error(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise _error(f"{name}: is a directory; name a study file in it") from None
    except UnicodeDecodeError:
        raise _error(f"{name}: is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise _error(f"{name}: cannot be read: {reason}") from None
    try:
        data, lines = parse(text)
    except ParseError as error:
        where = name if error.line is None else f"{name}:{error.line}"
        raise _error(f"{where}: {error}") from None
    if data is None:
        raise _error(f"{name}: is empty; a study has at least `study`, `stop` and `trial`")
    if not isinstance(data, dict):
        raise _error(f"{name}:1: must be a mapping of keys, not a list or a single value")
    places = {key: f"{name}:{line}" for key, line in lines.items()}
    return Document(name, text, data, places)


def document_of(text: str, name: str) -> Document:
    """A document from text that is in no file. Raises SpecError."""
    try:
        data, lines = parse(text)
    except ParseError as error:
        raise _error(f"{name}: {error}") from None
    return Document(name, text, data or {}, {key: f"{name}:{line}" for key, line in lines.items()})


def dump(data: Mapping[str, Any]) -> str:
    """The data as YAML."""
    stream = StringIO()
    YAML(typ="safe", pure=True).dump(dict(data), stream)
    return stream.getvalue()


def validate(document: Document, model: type[SpecT], *, section: str = "") -> SpecT:
    """The document, or one section of it, as a `model`. Raises SpecError for the one
    complaint that is most worth reading."""
    data: Any = document.data
    if section:
        if section not in document.data:
            raise document.error(section, "is missing")
        data = document.data[section]
    try:
        return model.model_validate(data)
    except ValidationError as error:
        path, message = complaint(error, model, data)
        path = ".".join(part for part in (section, path) if part)
        raise document.error(path, message) from None


def _assign(data: dict[str, Any], path: str, value: Any, place: str) -> None:
    """Set `path` in nested mappings and lists. Where keys hold dots themselves (`search`), the
    longest key that is there already is taken; if none fits, what is left is one new key."""
    here: Any = data
    rest = path
    while True:
        head, tail = _split(here, rest)
        if isinstance(here, list):
            if not head.isdecimal() or int(head) >= len(here):
                raise _error(f"{place}: the list has no item {head}; it has {len(here)}")
            key: Any = int(head)
        elif isinstance(here, dict):
            key = head
        else:
            before = path[: len(path) - len(rest) - 1]
            raise _error(f"{place}: {before} is a single value and has no key {head}")
        if not tail:
            here[key] = value
            return
        if isinstance(here, dict) and here.get(key) is None:
            here[key] = {}
        here, rest = here[key], tail


def _split(here: Any, rest: str) -> tuple[str, str]:
    if isinstance(here, dict):
        for key in sorted(here, key=len, reverse=True):
            if rest == key:
                return key, ""
            if rest.startswith(f"{key}."):
                return key, rest[len(key) + 1 :]
        if any("." in key for key in here):
            return rest, ""
    head, _, tail = rest.partition(".")
    return head, tail


def _error(line: str) -> SpecError:
    """One line whatever the file put into it: what cannot be printed is escaped."""
    return SpecError("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line))
