"""Discrete combinations of parameters: which clash, how many are valid, the nearest valid one.

Whether a trial can run depends on few numbers (`INTERACTING`). Parameters that neither are
among them nor decide whether others are active only multiply the count, so the combinations
that are walked through are those of small independent groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from sweeper.core.spec import Spec
from sweeper.study.conditions import Conditions, is_active
from sweeper.study.configure import configured
from sweeper.study.parameters import Parameter, Params, ParamValue
from sweeper.study.schema import walk
from sweeper.trial.clash import Clash, batch_clash, optimizer_clash, workers_clash
from sweeper.trial.spec import TrialSpec

OPTIMIZER = "algorithm.optimizer.kind"
INTERACTING = (
    OPTIMIZER,
    "parallelism.overlap",
    "parallelism.envs_per_worker",
    "algorithm.n_minibatches",
    "algorithm.n_steps",
    "algorithm.normalize_advantage",
    "parallelism.n_envs",
    "algorithm.kind",
)
"""The parameters whose combination can clash, in the order in which repair lets them give
way: the first moves before the second does, `n_envs` moves only when nothing else helps."""

MOST_COMBINATIONS = 200_000
"""Of one group; beyond it nothing is counted or narrowed, and repair alone keeps trials valid."""


class ClashFinder:
    """Whether values of searched parameters clash, given the trial that they are set in."""

    def __init__(self, base: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> None:
        kinds = parameters["algorithm.kind"].values if "algorithm.kind" in parameters else None
        algorithm = base["algorithm"]
        self._kind = algorithm["kind"]
        self._parameters = parameters
        self._rest = {kind: _unsearched(base, kind) for kind in (*(kinds or ()), self._kind)}

    def __call__(self, params: Params) -> Clash | None:
        """The first clash among `params` (of the active parameters), or None."""
        kind = params.get("algorithm.kind", self._kind)
        rest = self._rest[kind]
        optimizer, overlap, per_worker, n_minibatches, n_steps, normalize, n_envs = (
            params[path] if path in params and path in rest else rest.get(path)
            for path in INTERACTING[:-1]
        )
        clash = optimizer_clash(algorithm=str(kind), optimizer=str(optimizer)) or workers_clash(
            n_envs=_int(n_envs), envs_per_worker=_per_worker(per_worker), overlap=bool(overlap)
        )
        if clash or n_steps is None:  # of a learner of the user's own, nothing else is known
            return clash
        return batch_clash(
            n_envs=_int(n_envs),
            n_steps=_int(n_steps),
            n_minibatches=None if n_minibatches is None else _int(n_minibatches),
            normalize_advantage=bool(normalize),
        )


@dataclass(frozen=True)
class Count:
    """Discrete combinations of a group, and what of its parameters can ever be valid."""

    total: int
    valid: int
    supported: Mapping[str, frozenset[ParamValue]]
    """Parameter -> values that occur in a valid combination."""
    clash: Clash | None
    """One clash that was met."""


def groups(parameters: Mapping[str, Parameter], when: Conditions) -> list[list[str]]:
    """Parameters that depend on one another, directly or not; each group in the given order."""
    group = {path: path for path in parameters}

    def root(path: str) -> str:
        while group[path] != path:
            path = group[path]
        return path

    interacting = [path for path in INTERACTING if path in parameters]
    links = [(path, other) for path in parameters for other in when[path]]
    for one, other in [*links, *pairwise(interacting)]:
        group[root(one)] = root(other)
    members: dict[str, list[str]] = {}
    for path in parameters:
        members.setdefault(root(path), []).append(path)
    return list(members.values())


def assignments(
    paths: Sequence[str], parameters: Mapping[str, Parameter], when: Conditions
) -> Iterator[dict[str, ParamValue]]:
    """Every combination of the discrete parameters `paths` (parents first); parameters that
    are not active, and continuous ones, are absent."""

    def extend(index: int, chosen: dict[str, ParamValue]) -> Iterator[dict[str, ParamValue]]:
        if index == len(paths):
            yield dict(chosen)
            return
        path = paths[index]
        values = parameters[path].values
        if values is None or not is_active(path, chosen, when):
            yield from extend(index + 1, chosen)
            return
        for value in values:
            chosen[path] = value
            yield from extend(index + 1, chosen)
        del chosen[path]

    return extend(0, {})


def count(
    group: Sequence[str],
    parameters: Mapping[str, Parameter],
    when: Conditions,
    clash_of: ClashFinder,
) -> Count | None:
    """Count one group, or None when it has more than MOST_COMBINATIONS to walk through."""
    parents = {other for path in group for other in when[path]}
    walked = [path for path in group if path in INTERACTING or path in parents]
    leaves = [path for path in group if path not in walked]
    if math.prod(len(parameters[path].values or (0,)) for path in walked) > MOST_COMBINATIONS:
        return None
    total = valid = 0
    supported: dict[str, set[ParamValue]] = {path: set() for path in walked}
    met: Clash | None = None
    for chosen in assignments(walked, parameters, when):
        weight = math.prod(
            len(parameters[path].values or (0,)) for path in leaves if is_active(path, chosen, when)
        )
        total += weight
        clash = clash_of(chosen)
        if clash is not None:
            met = met or clash
            continue
        valid += weight
        for path, value in chosen.items():
            supported[path].add(value)
    return Count(total, valid, {path: frozenset(v) for path, v in supported.items()}, met)


def nearest_first(parameter: Parameter, value: ParamValue) -> list[ParamValue]:
    """The parameter's values, nearest to `value` first: by ratio for positive numbers,
    otherwise in the order of the file with `value` itself in front."""
    values = list(parameter.values or ())
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return sorted(values, key=lambda other: _distance(other, value))
    return sorted(values, key=lambda other: other != value)


def alternatives(
    params: Params, movable: Sequence[str], parameters: Mapping[str, Parameter]
) -> Iterator[dict[str, ParamValue]]:
    """Changes of `params` in the order of repair: of the first movable parameter alone, then
    of the first two, and so on; each to the nearest values first."""
    for size in range(1, len(movable) + 1):
        moving = movable[:size][::-1]  # `product` varies its last factor fastest
        orders = [nearest_first(parameters[path], params.get(path)) for path in moving]
        for values in product(*orders):
            yield dict(zip(moving, values, strict=True))


def _unsearched(base: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """INTERACTING path -> its value where it is not searched, under an algorithm's kind; the
    paths that it does not have are absent."""
    data = configured(base, {"algorithm.kind": kind})
    values: dict[str, Any] = {}
    for path in INTERACTING[:-1]:
        *parents, name = path.split(".")
        cls = walk(TrialSpec, data, parents)
        if isinstance(cls, type) and issubclass(cls, Spec) and name in cls.model_fields:
            here = data
            for parent in parents:
                here = here.get(parent, {})
            values[path] = here.get(name, cls.model_fields[name].default)
    return values


def _distance(value: ParamValue, target: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return abs(math.log(value / target))
    return math.inf


def _int(value: ParamValue) -> int:
    assert isinstance(value, int)
    return value


def _per_worker(value: ParamValue) -> Any:
    return value if value == "auto" else _int(value)
