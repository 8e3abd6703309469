"""The OpenAPI description as a table that a page can show, offline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Argument:
    """A part of the address."""

    name: str
    place: str
    """path | query."""
    kind: str
    required: bool
    words: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One address of the API; every one is a GET."""

    path: str
    words: str
    arguments: tuple[Argument, ...]
    answer: str
    """Name of the record that is answered, or the media type."""


def operations(document: dict[str, Any]) -> tuple[Operation, ...]:
    """Every operation of an OpenAPI document, by path."""
    return tuple(
        Operation(
            path=path,
            words=operation.get("description", ""),
            arguments=tuple(map(_argument, operation.get("parameters", ()))),
            answer=_answer(operation["responses"]["200"]),
        )
        for path, item in sorted(document["paths"].items())
        for operation in item.values()
    )


def _argument(parameter: dict[str, Any]) -> Argument:
    schema = parameter["schema"]
    return Argument(
        name=parameter["name"],
        place=parameter["in"],
        kind=_kind(schema),
        required=parameter["required"],
        words=parameter.get("description", ""),
    )


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return ", or ".join(_kind(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _answer(response: dict[str, Any]) -> str:
    content = response.get("content", {})
    schema = content.get("application/json", {}).get("schema")
    return _kind(schema) if schema else ", ".join(content) or "see the description"
