"""What the parts of an address may be, for pages and their twins alike."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, Field

from sweeper.report.curves import CURVES
from sweeper.web.state import StudyState

Name = Annotated[str, Path(min_length=1, max_length=500)]
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
State = Annotated[StudyState, Query()]
Sql = Annotated[str, Query(max_length=100_000)]


def _numbers(value: Any) -> Any:
    """`1,2,3`, `1` repeated, or both."""
    given = [value] if isinstance(value, str) else value
    return [part for each in given for part in str(each).split(",") if part]


Trials = Annotated[
    tuple[Annotated[int, Field(ge=1, le=2**31 - 1)], ...],
    BeforeValidator(_numbers),
    Query(max_length=100),
]


def _known_curve(name: str) -> str:
    if name not in CURVES:
        raise ValueError(f"must be one of {', '.join(CURVES)}, got {name!r}")
    return name


CurveName = Annotated[str, AfterValidator(_known_curve), Query(max_length=100)]
