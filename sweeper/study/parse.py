"""YAML text -> plain data and the line of every key.

A study file is data: mappings with text keys, lists and the scalars of YAML 1.2's core
schema (so `on` is text and `3e-4` a number). The tree is built here from ruamel.yaml's
events, which is all a file can make us do: no tags, no objects, nothing resolved by a table
that somebody may extend. Size, depth and what aliases multiply are bounded.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from sweeper.core.errors import SpecError

MAX_CHARACTERS = 262_144
MAX_DEPTH = 24
MAX_NODES = 20_000

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class ParseError(SpecError):
    """What is wrong with the text, and the line (from 1) if there is one."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parse(text: str) -> tuple[Any, dict[str, int]]:
    """The document's data, and dotted path -> line (from 1) for every key and list item.

    Empty text is None. Raises ParseError.
    """
    if len(text) > MAX_CHARACTERS:
        raise ParseError(f"is too large: {len(text)} characters, at most {MAX_CHARACTERS}")
    try:
        return _Builder(YAML(typ="safe", pure=True).parse(text)).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "it cannot be read"
        raise ParseError(
            f"is not YAML: {problem}", None if mark is None else mark.line + 1
        ) from error
    except YAMLError as error:
        raise ParseError(f"is not YAML: {str(error).splitlines()[0]}") from error


class _Builder:
    """Consumes events of one document; recursion is bounded by MAX_DEPTH."""

    def __init__(self, stream: Iterator[Any]) -> None:
        self._events = stream
        self._nodes = 0
        self._anchors: dict[str, tuple[Any, int]] = {}  # name -> (value, nodes in it)
        self._lines: dict[str, int] = {}

    def document(self) -> tuple[Any, dict[str, int]]:
        next(self._events)  # stream start
        if isinstance(next(self._events), events.StreamEndEvent):
            return None, {}
        data = self._node(next(self._events), "", 0)
        next(self._events)  # document end
        second = next(self._events)
        if not isinstance(second, events.StreamEndEvent):
            raise ParseError("holds a second document; give one a file", _line(second))
        return data, self._lines

    def _node(self, event: Any, path: str, depth: int) -> Any:
        if isinstance(event, events.AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            raise ParseError(f"has a tag, {event.tag}; only plain data is read", _line(event))
        if depth > MAX_DEPTH:
            raise ParseError(f"is nested deeper than {MAX_DEPTH} levels", _line(event))
        before = self._nodes
        self._count(1, event)
        value: Any
        if isinstance(event, events.MappingStartEvent):
            value = self._mapping(path, depth)
        elif isinstance(event, events.SequenceStartEvent):
            value = self._sequence(path, depth)
        else:
            value = _scalar(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - before)
        return value

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            key = self._node(event, path, depth + 1)
            if not isinstance(key, str):
                raise ParseError("has a key that is not text; put it in quotes", _line(event))
            if not key:
                raise ParseError("has a key without text", _line(event))
            here = f"{path}.{key}" if path else key
            if key in mapping:
                first = self._lines[here]
                raise ParseError(f"gives `{key}` twice, first on line {first}", _line(event))
            self._lines[here] = _line(event)
            mapping[key] = self._node(next(self._events), here, depth + 1)
        return mapping

    def _sequence(self, path: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), events.SequenceEndEvent):
            here = f"{path}.{len(items)}" if path else str(len(items))
            self._lines[here] = _line(event)
            items.append(self._node(event, here, depth + 1))
        return items

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise ParseError(f"refers to *{event.anchor}, which is not defined yet", _line(event))
        value, nodes = self._anchors[event.anchor]
        self._count(nodes, event)
        return copy.deepcopy(value)

    def _count(self, nodes: int, event: Any) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise ParseError(f"holds more than {MAX_NODES} values", _line(event))


def _scalar(event: Any) -> str | int | float | bool | None:
    text = _paired(event)
    if not event.implicit[0]:  # quoted, or a block: text whatever it looks like
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        number = int(text, 0 if text[:2] in ("0o", "0x") else 10) if len(text) < 32 else 2**63
        if abs(number) >= 2**63:
            raise ParseError("holds a whole number beyond 64 bits", _line(event))
        return number
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isfinite(value):
            return value
    elif not _NOT_FINITE.fullmatch(text):
        return text
    raise ParseError(f"holds {text[:20]}, which is not a finite number", _line(event))


def _paired(event: Any) -> str:
    """The text with surrogate pairs joined, as JSON escapes write characters beyond 16 bits."""
    text = str(event.value)
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ParseError("holds half a character, a lone surrogate", _line(event)) from None


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
