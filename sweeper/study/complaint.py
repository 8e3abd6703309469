"""A pydantic ValidationError -> the one thing to tell the user, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sweeper.core.spec import Spec
from sweeper.study.schema import kinds_at, nearest, walk


def complaint(error: ValidationError, model: type[Spec], data: Any) -> tuple[str, str]:
    """(dotted path from `model`, message that continues it).

    A misspelt key first, since it also makes its right spelling missing; then wrong values
    in the order of the fields; then what is missing; then what is too short, as a list is too
    that holds nothing but wrong values.
    """
    located = [(_locate(item, data), item) for item in error.errors(include_url=False)]
    located.sort(key=lambda pair: _RANK.get(pair[1]["type"], 1))
    path, first = located[0]
    if first["type"] == "sweeper":
        context = first["ctx"]
        whole = [*map(str, path), *filter(None, [context["path"]])]
        message = str(context["message"])
        return ".".join(whole), message if context["path"] else f": {message}"
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path = (*path, "kind")
    same = [item for where, item in located if where == _locate(first, data)]
    return ".".join(map(str, path)), _message(same, path, model, data)


_RANK = {"extra_forbidden": 0, "missing": 2, "union_tag_not_found": 2, "too_short": 3}

_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "finite_number": "a finite number",
}

_RANGES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda ctx: f"more than {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"at least {ctx['ge']:g}",
    "less_than": lambda ctx: f"less than {ctx['lt']:g}",
    "less_than_equal": lambda ctx: f"at most {ctx['le']:g}",
    "literal_error": lambda ctx: _words(ctx["expected"]),
    "string_too_short": lambda _: "text that is not empty",
    "string_too_long": lambda ctx: f"at most {ctx['max_length']} characters long",
    "string_pattern_mismatch": lambda ctx: f"text of the form {ctx['pattern']}",
}


def shown(value: Any) -> str:
    """A value as a message quotes it: on one line, short, as YAML would write it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Mapping():
            return "a mapping"
        case _:
            text = repr(value)
            return text if len(text) <= 60 else f"{text[:57]}..."


def _locate(item: ErrorDetails, data: Any) -> tuple[str | int, ...]:
    """`loc` without the names of union members, which are no keys of the data."""
    path: list[str | int] = []
    for key in item["loc"]:
        inside = (isinstance(data, Mapping) and key in data) or (
            isinstance(data, list | tuple) and isinstance(key, int) and key < len(data)
        )
        if inside:
            data = data[key]
        elif not (item["type"] == "missing" and key == item["loc"][-1]):
            continue
        path.append(key)
    return tuple(path)


def _message(
    items: list[ErrorDetails], path: tuple[str | int, ...], model: type[Spec], data: Any
) -> str:
    first = items[0]
    context = first.get("ctx", {})
    match first["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return _unknown_key(str(path[-1]), walk(model, data, path[:-1]))
        case "union_tag_not_found":
            return f"is missing; it is one of {', '.join(kinds_at(model, data, path[:-1]))}"
        case "union_tag_invalid":
            expected = _words(context["expected_tags"])
            return (
                f"must be {expected}, got {shown(context['tag'])}{_hint(context['tag'], expected)}"
            )
        case "too_short" | "too_long":
            bound = "at least" if first["type"] == "too_short" else "at most"
            number = (
                context["min_length"] if first["type"] == "too_short" else context["max_length"]
            )
            return f"must hold {bound} {number}, got {context['actual_length']}"
    allowed = dict.fromkeys(filter(None, map(_allowed, items)))
    if not allowed:
        return f"is not valid: {first['msg']}, got {shown(first['input'])}"
    expected = " or ".join(allowed)
    return f"must be {expected}, got {shown(first['input'])}{_hint(first['input'], expected)}"


def _allowed(item: ErrorDetails) -> str | None:
    if item["type"] in _RANGES:
        return _RANGES[item["type"]](item["ctx"])
    return _KINDS.get(item["type"])


def _hint(given: object, expected: str) -> str:
    """The nearest of the words in `expected`, for a text that was probably one of them."""
    if not isinstance(given, str) or not expected.startswith("one of "):
        return ""
    meant = nearest(given, expected.removeprefix("one of ").split(", "))
    return f"; did you mean {meant}?" if meant else ""


def _unknown_key(key: str, cls: Any) -> str:
    if not (isinstance(cls, type) and issubclass(cls, Spec)):
        return "is not a known key"
    meant = nearest(key, cls.model_fields)
    if meant is not None:
        return f"is not a known key; did you mean `{meant}`?"
    return f"is not a known key; known here: {', '.join(cls.model_fields)}"


def _words(quoted: str) -> str:
    """pydantic's "'a', 'b' or 'c'" as "one of a, b, c"; a single word alone."""
    words = [word.strip().strip("'") for word in quoted.replace(" or ", ", ").split(", ")]
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
