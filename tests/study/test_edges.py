"""Ranges whose end the best trials sit on."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from sweeper.study.edges import edges
from sweeper.study.parameters import Parameter, Params

PARAMETER: TypeAdapter[Parameter] = TypeAdapter(Parameter)


def found(given: dict[str, Any], *values: Any) -> list[tuple[str, Any, int]]:
    best: list[Params] = [{"x": value} for value in values]
    return [
        (edge.end, edge.value, edge.sitting)
        for edge in edges({"x": PARAMETER.validate_python(given)}, best)
    ]


@pytest.mark.parametrize(
    ("given", "values", "expected"),
    [
        ({"kind": "pow2", "low": 1, "high": 32}, (32, 32, 8), [("high", 32, 2)]),
        ({"kind": "pow2", "low": 1, "high": 32}, (1, 1, 32), [("low", 1, 2)]),
        ({"kind": "pow2", "low": 1, "high": 32}, (1, 8, 32), []),
        ({"kind": "pow2", "low": 4, "high": 8}, (8, 8, 8), []),  # nothing but ends
        ({"kind": "float", "low": 1e-4, "high": 1e-1, "log": True}, (9e-2, 8e-2, 1e-3),
         [("high", 0.1, 2)]),
        ({"kind": "float", "low": 0.0, "high": 1.0}, (0.01, 0.04, 0.5), [("low", 0.0, 2)]),
        ({"kind": "float", "low": 0.0, "high": 1.0}, (0.9, 0.9, 0.9), []),
        ({"kind": "int", "low": 1, "high": 20, "log": True}, (20, 20), []),  # too few trials
        ({"kind": "choice", "choices": [1, 2, 3]}, (3, 3, 3), []),
    ],
)  # fmt: skip
def test_most_of_the_best_at_an_end(
    given: dict[str, Any], values: tuple[Any, ...], expected: list[Any]
) -> None:
    assert found(given, *values) == expected


def test_trials_without_the_parameter_or_outside_the_range_do_not_count() -> None:
    parameters = {"x": PARAMETER.validate_python({"kind": "int", "low": 1, "high": 9})}
    best: list[Params] = [{"x": 9}, {"x": 9}, {"x": 12}, {"y": 9}]
    assert edges(parameters, best) == []
    (edge,) = edges(parameters, [*best, {"x": 9}])
    assert str(edge) == (
        "x: 3 of the 3 best trials sit at the high end, 9; a wider range may hold better ones"
    )
