"""Whether a trial has what a study searches: each path, and each bound and choice by itself.

Clashes between values are not looked at here; `combinations` does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from pydantic import ValidationError

from sweeper.core.spec import invalid
from sweeper.study.complaint import complaint
from sweeper.study.conditions import Conditions
from sweeper.study.configure import configured
from sweeper.study.parameters import (
    BoolParameter,
    ChoiceParameter,
    ConstantParameter,
    FloatParameter,
    Parameter,
    ParamValue,
)
from sweeper.study.schema import dotted_paths, nearest, walk
from sweeper.trial.spec import TrialSpec

FIXED = ("env.id", "env.make", "budget", "evaluation", "seed")
"""The same for every trial of a study: results would not compare otherwise."""


def check_parameters(
    parameters: Mapping[str, Parameter], when: Conditions, base: Mapping[str, Any]
) -> None:
    """Raise the first `invalid` error (paths from the study) about a path or value that
    `base`, the data of the trial, cannot take."""
    # Kinds first: a wrong kind would make the keys below it look unknown.
    for path in sorted(parameters, key=lambda path: (not path.endswith(".kind"), path)):
        _check_path(path, parameters, when, base)
        _check_values(path, parameters, when, base)


def exists(path: str, data: Mapping[str, Any]) -> bool:
    """Whether the trial has a key at `path`, under the kinds that `data` chooses."""
    return walk(TrialSpec, data, path.split(".")) is not None


def unknown_path(path: str, known: Iterable[str], what: str = "is not a key of the trial") -> str:
    """`what`, and which of the known paths was probably meant."""
    known = list(known)
    same_end = [other for other in known if other.endswith(f".{path}")]
    meant = same_end[0] if same_end else nearest(path, known)
    return f"{what}; did you mean {meant}?" if meant else what


def extremes(
    path: str, parameters: Mapping[str, Parameter], when: Conditions
) -> Iterator[tuple[str, dict[str, ParamValue]]]:
    """(key of the parameter in the study file, params under which it has the value there) for
    each value of the parameter at `path` that must be checked."""
    for key, value in _extremes(parameters[path]):
        yield key, {**_witness(path, when), path: value}


def _check_path(
    path: str, parameters: Mapping[str, Parameter], when: Conditions, base: Mapping[str, Any]
) -> None:
    where = f"search.{path}"
    if any(path == fixed or path.startswith(f"{fixed}.") for fixed in FIXED):
        raise invalid(where, "is the same for every trial of a study and cannot be searched")
    kinds = [
        kind
        for kind in parameters
        if kind != path and kind.endswith(".kind") and path.startswith(kind.removesuffix("kind"))
    ]
    choices = [when[path].get(kind) or parameters[kind].values or () for kind in kinds]
    chosen_kinds = [dict(zip(kinds, values, strict=True)) for values in product(*choices)]
    existing = [exists(path, configured(base, chosen)) for chosen in chosen_kinds]
    known = [*dotted_paths(TrialSpec)]
    if path not in known and not any(existing):
        raise invalid(where, unknown_path(path, known))
    for chosen, is_there in zip(chosen_kinds, existing, strict=True):
        if is_there:
            continue
        if not kinds:
            raise invalid(where, "is not a key under the kinds that `trial` chooses")
        under = ", ".join(f"{kind}: {value}" for kind, value in chosen.items())
        raise invalid(where, f"is not a key under {{{under}}}; say `when:` it is one")


def _check_values(
    path: str, parameters: Mapping[str, Parameter], when: Conditions, base: Mapping[str, Any]
) -> None:
    for key, params in extremes(path, parameters, when):
        data = configured(base, {p: parameters[p].decode(v) for p, v in params.items()})
        try:
            TrialSpec.model_validate(data)
        except ValidationError as error:
            if all(item["type"] == "sweeper" for item in error.errors()):
                continue  # a clash with other values
            at, message = complaint(error, TrialSpec, data)
            rest = at.removeprefix(path)
            if at == path or rest.startswith("."):  # an item of a list
                raise invalid(f"search.{path}.{key}{rest}", message) from None
            raise invalid(f"search.{path}.{key}", f"makes {at} wrong: it {message}") from None


def _witness(path: str, when: Conditions) -> dict[str, ParamValue]:
    """Values under which `path` is active."""
    chosen: dict[str, ParamValue] = {}
    for other, allowed in when[path].items():
        chosen |= _witness(other, when) | {other: allowed[0]}
    return chosen


def _extremes(parameter: Parameter) -> list[tuple[str, ParamValue]]:
    """(key in the study file, value) for each value that must be checked."""
    match parameter:
        case ChoiceParameter(values=values):
            return [(f"choices.{index}", value) for index, value in enumerate(values)]
        case BoolParameter():
            return [("kind", False), ("kind", True)]
        case ConstantParameter(values=values):
            return [("value", values[0])]
        case FloatParameter(low=low, high=high):
            return [("low", low), ("high", high)]
        case _:
            return [("low", parameter.values[0]), ("high", parameter.values[-1])]
