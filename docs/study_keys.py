"""Write the tables of keys in study-file.md from the specs: python docs/study_keys.py"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from sweeper.core.spec import Spec
from sweeper.study.schema import kind_of, spec_classes
from sweeper.study.spec import StudySpec

PAGE = Path(__file__).parent / "study-file.md"
BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->\n"


def tables() -> str:
    """A table for the study, each section and each `kind`; where one stands in several
    places it is shown once, under all of them."""
    places: dict[type[Spec], list[str]] = {}
    for path, cls in _sections("", StudySpec):
        if path not in places.setdefault(cls, []):
            places[cls].append(path)
    return "\n".join(_section(paths, cls) for cls, paths in places.items())


def page() -> str:
    """study-file.md with its tables as they should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def _sections(path: str, cls: type[Spec]) -> Iterator[tuple[str, type[Spec]]]:
    yield path, cls
    for name, field in cls.model_fields.items():
        here = f"{path}.{name}" if path else name
        annotation = field.annotation
        if get_origin(annotation) is dict:  # search: path -> parameter, and the like
            here, annotation = f"{here}.<path>", get_args(annotation)[1]
        elif get_origin(annotation) is tuple:
            here, annotation = f"{here}.<item>", get_args(annotation)[0]
        for member in spec_classes(annotation):
            yield from _sections(here, member)


def _section(paths: list[str], cls: type[Spec]) -> str:
    kinds = get_args(cls.model_fields["kind"].annotation) if "kind" in cls.model_fields else ()
    title = ", ".join(f"`{path}`" for path in paths) if paths != [""] else "The study"
    fields = dict(cls.model_fields)
    if len(kinds) == 1:  # the class is one kind of a union
        title += f": `kind: {kinds[0]}`"
        del fields["kind"]
    elif not kinds and "kind" in fields:  # and this one whatever text it is
        title += f": `kind: {kind_of(cls)}`"
    rows = [
        f"| `{name}` | {_value(field)} | {_default(field)} | {_one_line(field.description)} |"
        for name, field in fields.items()
    ]
    head = ["| key | value | default | meaning |", "|---|---|---|---|"] if rows else []
    lines = [f"### {title}", "", _one_line(cls.__doc__), "", *head, *rows]
    return "\n".join([*lines, ""]) if rows else "\n".join(lines)


def _value(field: FieldInfo) -> str:
    if spec_classes(field.annotation):
        return "a section of its own"
    members = [member for member in get_args(field.annotation) if member is not type(None)]
    nullable = type(None) in get_args(field.annotation)
    words = " or ".join(map(_words, members)) if nullable else _words(field.annotation)
    bounds = [bound for bound in map(_bound, field.metadata) if bound]
    return ", ".join([words, *bounds, *["or null"] * nullable])


def _words(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return ", ".join([_words(args[0]), *filter(None, map(_bound, args[1].metadata))])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin is dict:
        return "a mapping"
    if origin is tuple:
        return "a list"
    if args:
        return " or ".join(_words(arg) for arg in args)
    names = {int: "whole number", float: "number", str: "text", bool: "`true`, `false`"}
    return names.get(annotation, "null" if annotation is type(None) else "any value")


def _bound(item: Any) -> str | None:
    match item:
        case Ge(ge=limit):
            return f"≥ {limit}"
        case Gt(gt=limit):
            return f"> {limit}"
        case Le(le=limit):
            return f"≤ {limit}"
        case Lt(lt=limit):
            return f"< {limit}"
    return None


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    match value:
        case Spec():
            kind = kind_of(type(value))
            return f"`kind: {kind}`" if kind else "its defaults"
        case bool():
            return f"`{str(value).lower()}`"
        case dict() if value:
            return ", ".join(f"`{key}: {item}`" for key, item in value.items())
        case tuple() if value and isinstance(value[0], Spec):
            return f"`{', '.join(str(item.model_dump()) for item in value)}`".replace("'", "")
        case tuple() if value:
            return f"`{list(value)}`"
        case None | dict() | tuple():
            return "none"
    return f"`{value}`"


def _one_line(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip().replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
