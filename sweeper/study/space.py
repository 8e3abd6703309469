"""`SearchSpace`: what a study searches, and how a suggestion becomes a trial that can run.

Values that can never be valid are narrowed away when the space is made; what a sampler still
suggests wrongly is repaired, in one fixed order (`combinations.INTERACTING`): the parameters
listed first give way first, each to the nearest valid value.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from sweeper.core.errors import SpecError
from sweeper.core.spec import Spec, invalid
from sweeper.study.checks import check_parameters, exists, extremes, unknown_path
from sweeper.study.combinations import (
    INTERACTING,
    ClashFinder,
    Count,
    alternatives,
    assignments,
    count,
    groups,
)
from sweeper.study.complaint import complaint, shown
from sweeper.study.conditions import conditions, is_active, parents_first
from sweeper.study.configure import configured
from sweeper.study.parameters import (
    BoolParameter,
    ChoiceParameter,
    ConstantParameter,
    FloatParameter,
    Parameter,
    Params,
    ParamValue,
)
from sweeper.study.schema import dotted_paths
from sweeper.trial.spec import TrialSpec

CORES = "parallelism.cores"


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Values that were taken out of a parameter, and why."""

    path: str
    values: tuple[ParamValue, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SpaceReport:
    """What `sweeper check` says about a space."""

    parameters: Mapping[str, Parameter]
    """Path -> parameter with its range as narrowed, parents first."""
    continuous: tuple[str, ...]
    """Parameters with infinitely many values; not part of the counts."""
    combinations: int | None
    """Discrete combinations, conditions observed; None when there are too many to count."""
    valid: int | None
    """How many of them can run."""
    narrowed: tuple[Narrowing, ...]


class SearchSpace:
    """The searched parameters of a trial.

    Raises `core.spec.invalid` errors with paths from the study (`search.…`) for parameters
    that do not exist, values that do not validate, and spaces in which nothing can run.
    """

    def __init__(
        self,
        trial: TrialSpec,
        parameters: Mapping[str, Parameter],
        *,
        usable_cores: int | None = None,
    ) -> None:
        """`usable_cores`: of the largest node; None when it is not known."""
        self.trial = trial
        self._base = trial.model_dump(exclude_unset=True)
        self._when = conditions(parameters)
        self.parameters: dict[str, Parameter] = {
            path: parameters[path] for path in parents_first(self._when)
        }
        self._base_values = _values(trial, parameters)
        check_parameters(self.parameters, self._when, self._base)
        self._narrowed: list[Narrowing] = []
        self._usable_cores = usable_cores
        self._too_many_cores = f"no node has more than {usable_cores} usable cores"
        if CORES not in parameters or self._when[CORES]:  # then the trial's own are used
            self._check_cores(trial, "trial")
        if usable_cores is not None and CORES in parameters:
            self._narrow_cores(usable_cores)
        self._clash = ClashFinder(self._base, self.parameters)
        counts = [self._count(group) for group in groups(self.parameters, self._when)]
        known = [c for c in counts if c is not None]
        complete = len(known) == len(counts)
        self._combinations = math.prod(c.total for c in known) if complete else None
        self._valid = math.prod(c.valid for c in known) if complete else None
        parents = {other for allowed in self._when.values() for other in allowed}
        self._gives_way = [path for path in INTERACTING if path in self.parameters]
        self._gives_way += [p for p in self.parameters if p in parents - {*INTERACTING}]

    def report(self) -> SpaceReport:
        """The space as it will be searched."""
        return SpaceReport(
            parameters=dict(self.parameters),
            continuous=tuple(p for p, v in self.parameters.items() if v.values is None),
            combinations=self._combinations,
            valid=self._valid,
            narrowed=tuple(self._narrowed),
        )

    def resolve(self, params: Params) -> TrialSpec:
        """The trial with `params` set; what they leave out keeps the base's value.

        Where that changes a `kind`, keys of the base that the new kind does not have are
        dropped. Raises SpecError if the result cannot run.
        """
        decoded = {path: self.parameters[path].decode(v) for path, v in params.items()}
        data = configured(self._base, decoded)
        try:
            return TrialSpec.model_validate(data)
        except ValidationError as error:
            raise SpecError(" ".join(complaint(error, TrialSpec, data))) from None

    def is_active(self, path: str, params: Params) -> bool:
        """Whether `path` is searched, given the values of the parameters before it."""
        return is_active(path, params, self._when)

    def repair(self, params: Params) -> dict[str, ParamValue]:
        """The nearest params that can run: every active parameter has a value in its range,
        inactive ones are gone, and what clashes has given way."""
        complete = self._complete(params)
        if self._clash(complete) is None:
            return complete
        for change in alternatives(complete, self._gives_way, self.parameters):
            candidate = self._complete({**complete, **change})
            if self._clash(candidate) is None:
                return candidate
        raise SpecError(f"search: nothing near {shown(dict(params))} can run")

    def fit(self, params: Mapping[str, Any]) -> dict[str, ParamValue]:
        """What of `params` is in this space: known, in range and active. Never fails, so
        that trials of an older version of a study still inform the search where they can."""
        kept: dict[str, ParamValue] = {}
        for path, parameter in self.parameters.items():
            if path in params and self.is_active(path, kept):
                kept.update((path, value) for value in parameter.fit(params[path]) or ())
        return kept

    def params_of(self, trial: TrialSpec) -> dict[str, ParamValue]:
        """What of a trial is in this space."""
        return self.fit(_values(trial, self.parameters))

    def enqueued(self, values: Mapping[str, Any], where: str) -> dict[str, ParamValue]:
        """Values of searched parameters that a user asked for, checked; with them, what the
        base gives to the other parameters, as far as that is in range.

        Raises `invalid` errors with paths below `where`.
        """
        for path, value in values.items():
            if path not in self.parameters:
                raise invalid(
                    f"{where}.{path}", unknown_path(path, self.parameters, "is not searched")
                )
            if self.parameters[path].fit(value) is None:
                allowed = self.parameters[path].text
                raise invalid(f"{where}.{path}", f"must be {allowed}, got {shown(value)}")
        params = self.fit({**self._base_values, **values})
        for path in values:
            if path not in params:
                raise invalid(f"{where}.{path}", "is not searched under these conditions")
        if clash := self._clash(params):
            raise invalid(where, f": cannot run: {clash.path} {clash.message}")
        self._check_cores(self.resolve(params), where)
        return params

    def configure(self, values: Mapping[str, Any], where: str, **other: Any) -> TrialSpec:
        """The base with any values set, in the space or not; `other` replaces whole sections.

        Raises `invalid` errors with paths below `where`.
        """
        for path in values:
            if not exists(path, configured(self._base, values)):
                raise invalid(f"{where}.{path}", unknown_path(path, dotted_paths(TrialSpec)))
        data = {**configured(self._base, values), **other}
        try:
            trial = TrialSpec.model_validate(data)
        except ValidationError as error:
            path, message = complaint(error, TrialSpec, data)
            raise invalid(f"{where}.{path}", message) from None
        self._check_cores(trial, where)
        return trial

    def corners(self) -> Iterator[tuple[str, TrialSpec]]:
        """(path and key in `search`, a trial that can run with the value there) for each bound
        and each choice of each parameter."""
        for path in self.parameters:
            for key, params in extremes(path, self.parameters, self._when):
                yield f"{path}.{key}", self.resolve(self.repair(params))

    def variants(self, paths: Collection[str]) -> Iterator[TrialSpec]:
        """A trial that can run for each combination of values that the discrete parameters among
        `paths` can have together; one trial where none of them is searched."""
        walked = set(paths)
        for path in reversed(self.parameters):  # before those that it depends on
            if path in walked:
                walked |= self._when[path].keys()
        met: set[tuple[ParamValue, ...]] = set()
        in_order = [path for path in self.parameters if path in walked]
        for params in assignments(in_order, self.parameters, self._when):
            values = tuple(params.get(path) for path in paths)
            if values not in met:
                met.add(values)
                yield self.resolve(self.repair(params))

    def configurations(self) -> Iterator[dict[str, ParamValue]]:
        """Every valid combination of the discrete parameters, in the order of the file."""
        for params in assignments(list(self.parameters), self.parameters, self._when):
            if self._clash(params) is None:
                yield params

    def _complete(self, params: Params) -> dict[str, ParamValue]:
        complete: dict[str, ParamValue] = {}
        for path, parameter in self.parameters.items():
            if not self.is_active(path, complete):
                continue
            fit = parameter.fit(params[path]) if path in params else None
            if fit is None and path in self._base_values:
                fit = parameter.fit(self._base_values[path])
            complete[path] = parameter.at(0.5) if fit is None else fit[0]
        return complete

    def _check_cores(self, trial: TrialSpec, where: str) -> None:
        cores = trial.parallelism.cores
        if self._usable_cores is not None and cores > self._usable_cores:
            raise invalid(f"{where}.{CORES}", f"cannot be had: {self._too_many_cores}, got {cores}")

    def _narrow_cores(self, usable_cores: int) -> None:
        kept = [v for v in self.parameters[CORES].values or () if _number(v) <= usable_cores]
        if not kept:
            raise invalid(f"search.{CORES}", f"leaves nothing: {self._too_many_cores}")
        self._narrow(CORES, frozenset(kept), self._too_many_cores)

    def _count(self, group: list[str]) -> Count | None:
        result = count(group, self.parameters, self._when, self._clash)
        if result is None:
            return None
        if result.valid == 0 and result.clash is not None:
            at = next((p for p in INTERACTING if p in group), group[0])
            where = result.clash.path if result.clash.path in group else at
            raise invalid(
                f"search.{where}",
                f": no combination in the search can run; for one, "
                f"{result.clash.path} {result.clash.message}",
            )
        for path, values in result.supported.items():
            self._narrow(path, values, "no combination with it can run")
        return result

    def _narrow(self, path: str, supported: frozenset[ParamValue], reason: str) -> None:
        """Keep what is supported; of a range, only its ends can be cut off."""
        parameter = self.parameters[path]
        before = parameter.values or ()
        kept = [value for value in before if value in supported]
        if not kept or len(kept) == len(before):
            return
        self.parameters[path] = narrowed = _restricted(parameter, kept)
        after = narrowed.values or ()
        if gone := tuple(value for value in before if value not in after):
            self._narrowed.append(Narrowing(path, gone, reason))


def _restricted(parameter: Parameter, kept: list[ParamValue]) -> Parameter:
    match parameter:
        case ChoiceParameter():
            choices = [parameter.decode(value) for value in kept]
            return parameter.model_copy(update={"choices": tuple(choices)})
        case BoolParameter():
            return ConstantParameter(kind="constant", value=kept[0], when=parameter.when)
        case ConstantParameter() | FloatParameter():
            return parameter
        case _:
            return parameter.model_copy(update={"low": kept[0], "high": kept[-1]})


def _values(trial: TrialSpec, paths: Iterable[str]) -> dict[str, Any]:
    """Path -> the trial's value there, for those that the trial's kinds have."""
    return {path: value for path in paths for value in _read(trial, path)}


def _read(trial: TrialSpec, path: str) -> tuple[Any, ...]:
    """The value at `path` in a tuple; empty where the trial's kinds have no such key."""
    here: Any = trial
    for key in path.split("."):
        if isinstance(here, Mapping):
            if key not in here:
                return ()
            here = here[key]
        elif not isinstance(here, Spec):
            return ()
        elif key in type(here).model_fields:
            here = getattr(here, key)
        elif here.model_extra and key in here.model_extra:
            here = here.model_extra[key]
        else:
            return ()
    return (list(here),) if isinstance(here, tuple) else (here,)


def _number(value: ParamValue) -> float:
    return float(value) if isinstance(value, int | float) else math.inf
