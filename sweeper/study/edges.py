"""Ranges whose end the best trials sit on: better ones may lie beyond."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from sweeper.core.errors import SpecError
from sweeper.store.rows import StudyRow, TrialRow
from sweeper.study.document import document_of, validate
from sweeper.study.parameters import (
    FloatParameter,
    IntParameter,
    Parameter,
    Params,
    ParamValue,
    Pow2Parameter,
)
from sweeper.study.spec import StudySpec

MIN_TRIALS = 3
NEAR = 0.05
"""Share of a range, on its own scale, that counts as its end."""
MOST = 0.5
"""Share of the trials that must sit there."""


class Edge(NamedTuple):
    """A parameter, the end of its range and how many of the best trials sit there."""

    path: str
    end: Literal["low", "high"]
    value: ParamValue
    sitting: int
    trials: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.sitting} of the {self.trials} best trials sit at the "
            f"{self.end} end, {self.value:g}; a wider range may hold better ones"
        )


def study_edges(study: StudyRow, best: Sequence[TrialRow]) -> list[Edge]:
    """What to warn of in a study as it was last launched, which is nothing where that file is
    of another release and no longer valid. `best`: the trials of its front."""
    try:
        document = document_of(study.spec_yaml, f"study {study.name}")
        parameters = validate(document, StudySpec).search
    except SpecError:
        return []
    return edges(parameters, [trial.params for trial in best])


def edges(parameters: Mapping[str, Parameter], best: Sequence[Params]) -> list[Edge]:
    """What to warn of. `best`: the params of the trials of the front.

    A range of fewer than three values has nothing but ends and is not spoken of.
    """
    found: list[Edge] = []
    for path, parameter in parameters.items():
        if not isinstance(parameter, FloatParameter | IntParameter | Pow2Parameter):
            continue
        values = parameter.values
        if values is not None and len(values) < 3:
            continue
        fits = [fit for params in best if path in params if (fit := parameter.fit(params[path]))]
        if len(fits) < MIN_TRIALS:
            continue
        units = [_unit(parameter, fit[0]) for fit in fits]
        low, high = sum(u <= NEAR for u in units), sum(u >= 1.0 - NEAR for u in units)
        if low > MOST * len(units):
            found.append(Edge(path, "low", parameter.low, low, len(units)))
        elif high > MOST * len(units):
            found.append(Edge(path, "high", parameter.high, high, len(units)))
    return found


def _unit(parameter: FloatParameter | IntParameter | Pow2Parameter, value: ParamValue) -> float:
    """Where in its range a value lies, 0 to 1, on the range's own scale."""
    low, high, here = float(parameter.low), float(parameter.high), float(value or 0)
    if isinstance(parameter, Pow2Parameter):
        low, high = (float(2**exponent) for exponent in parameter.exponents)
    if low == high:
        return 0.5
    if isinstance(parameter, Pow2Parameter) or parameter.log:
        return math.log(here / low) / math.log(high / low)
    return (here - low) / (high - low)
