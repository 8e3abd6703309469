"""The kinds of parameters that a study can search, and how values of each are handled.

A parameter's value in `params` is always a scalar: a choice that is a list is known by its
JSON text, so that it is one cell of a table and is never confused when the list of choices
changes.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sweeper.core.spec import Spec, as_tuple, invalid

ParamValue = float | int | str | bool | None
Params = Mapping[str, ParamValue]
"""Dotted path into the trial -> value, for the parameters that are active."""


class _Parameter(Spec):
    when: dict[str, Any] = Field(default_factory=dict)
    """Searched only while the named parameters have the given value, or one of a list."""

    @property
    @abstractmethod
    def values(self) -> tuple[ParamValue, ...] | None:
        """Every value in order; None for a continuous range."""

    @property
    def text(self) -> str:
        """The values in words: `one of adam, sgd`, `0.0003 to 0.003 (log)`."""
        values = [canonical_text(value).strip('"') for value in self.values or ()]
        return values[0] if len(values) == 1 else f"one of {', '.join(values)}"

    def at(self, unit: float) -> ParamValue:
        """The value at `unit` in [0, 1): equal shares of the range, on its own scale."""
        values = self.values
        assert values is not None
        return values[min(int(unit * len(values)), len(values) - 1)]

    def fit(self, value: object) -> tuple[ParamValue] | None:
        """`value` as this parameter holds it, in a tuple; None if it is not one of its
        values. A number may come back from a database as a float: 8.0 fits where 8 does."""
        wanted = canonical(value)
        for candidate in self.values or ():
            if candidate == wanted and isinstance(candidate, bool) == isinstance(wanted, bool):
                return (candidate,)
        return None

    def decode(self, value: ParamValue) -> Any:
        """What a canonical value stands for in the trial."""
        return value


class FloatParameter(_Parameter):
    """A real number in [low, high]."""

    kind: Literal["float"]
    low: float
    """Least value."""
    high: float
    """Greatest value."""
    log: bool = False
    """Searched on a logarithmic scale; needs low > 0."""
    step: float | None = Field(default=None, gt=0)
    """Only low, low + step, low + 2 step ...; not with `log`."""

    @model_validator(mode="after")
    def _is_range(self) -> FloatParameter:
        _check_range(self.low, self.high, log=self.log)
        if self.log and self.step is not None:
            raise invalid("step", "cannot be combined with log")
        if self.step is not None and (self.high - self.low) / self.step > _MOST_STEPS:
            raise invalid("step", f"makes more than {_MOST_STEPS} values")
        return self

    @property
    def text(self) -> str:
        """The range, scale and step."""
        return _range_text(self.low, self.high, "log" if self.log else "", self.step)

    @property
    def values(self) -> tuple[ParamValue, ...] | None:
        """The steps; None without `step`."""
        if self.step is None:
            return (self.low,) if self.low == self.high else None
        n = math.floor((self.high - self.low) / self.step + 1e-9)
        return tuple(self.low + i * self.step for i in range(n + 1))

    def at(self, unit: float) -> ParamValue:
        """Uniform on the linear or the logarithmic scale."""
        if self.values is not None:
            return super().at(unit)
        if not self.log:
            return min(self.low + unit * (self.high - self.low), self.high)
        value = math.exp(math.log(self.low) + unit * math.log(self.high / self.low))
        return min(max(value, self.low), self.high)

    def fit(self, value: object) -> tuple[ParamValue] | None:
        """In the range, and within rounding of a step."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if self.values is not None:
            nearest = min(self.values, key=lambda v: abs(float(v or 0) - value))
            close = math.isclose(float(nearest or 0), value, rel_tol=1e-9, abs_tol=1e-12)
            return (nearest,) if close else None
        return (float(value),) if self.low <= value <= self.high else None


class IntParameter(_Parameter):
    """A whole number in [low, high]."""

    kind: Literal["int"]
    low: int
    """Least value."""
    high: int
    """Greatest value."""
    log: bool = False
    """Searched on a logarithmic scale; needs low > 0."""
    step: int = Field(default=1, ge=1)
    """Only low, low + step, low + 2 step ...; not with `log`."""

    @model_validator(mode="after")
    def _is_range(self) -> IntParameter:
        _check_range(self.low, self.high, log=self.log)
        if self.log and self.step != 1:
            raise invalid("step", "cannot be combined with log")
        if (self.high - self.low) // self.step > _MOST_STEPS:
            raise invalid("high", f"makes more than {_MOST_STEPS} values; use a step, or pow2")
        return self

    @property
    def text(self) -> str:
        """The range, scale and step."""
        step = self.step if self.step > 1 else None
        return f"a whole number, {_range_text(self.low, self.high, 'log' * self.log, step)}"

    @property
    def values(self) -> tuple[ParamValue, ...]:
        """low, low + step ... up to high."""
        return tuple(range(self.low, self.high + 1, self.step))

    def fit(self, value: object) -> tuple[ParamValue] | None:
        """In the range, on a step."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not self.low <= value <= self.high or (value - self.low) % self.step:
            return None
        return (int(value),)

    def at(self, unit: float) -> ParamValue:
        """Uniform on the linear or the logarithmic scale."""
        if not self.log:
            return super().at(unit)
        low, high = self.low - 0.5, self.high + 0.5
        value = round(math.exp(math.log(low) + unit * math.log(high / low)))
        return min(max(value, self.low), self.high)


class Pow2Parameter(_Parameter):
    """A power of two in [low, high]: 1, 2, 4, 8 ..."""

    kind: Literal["pow2"]
    low: int = Field(ge=1)
    """Least value; the next power of two counts."""
    high: int = Field(ge=1)
    """Greatest value; the power of two before it counts."""

    @model_validator(mode="after")
    def _holds_a_power(self) -> Pow2Parameter:
        _check_range(self.low, self.high, log=False)
        if self.exponents[0] > self.exponents[1]:
            raise invalid("high", f"leaves no power of two between {self.low} and {self.high}")
        return self

    @property
    def exponents(self) -> tuple[int, int]:
        """log2 of the least and of the greatest value."""
        return (self.low - 1).bit_length(), self.high.bit_length() - 1

    @property
    def values(self) -> tuple[ParamValue, ...]:
        """The powers of two in the range."""
        low, high = self.exponents
        return tuple(2**exponent for exponent in range(low, high + 1))


class ChoiceParameter(_Parameter):
    """One of the values listed, in no order."""

    kind: Literal["choice"]
    choices: Annotated[tuple[Any, ...], as_tuple] = Field(min_length=1)
    """The values: numbers, texts, true, false, null, or lists of them."""

    @field_validator("choices")
    @classmethod
    def _distinct(cls, choices: tuple[Any, ...]) -> tuple[Any, ...]:
        seen: list[str] = []
        for index, choice in enumerate(choices):
            if isinstance(choice, Mapping):
                raise invalid(str(index), "must be a single value or a list, got a mapping")
            text = canonical_text(choice)
            if text in seen:
                raise invalid(str(index), f"repeats an earlier choice, {text}")
            seen.append(text)
        return choices

    @property
    def values(self) -> tuple[ParamValue, ...]:
        """The choices, lists as JSON text."""
        return tuple(canonical(choice) for choice in self.choices)

    def decode(self, value: ParamValue) -> Any:
        """The choice itself, a list as a list."""
        text = canonical_text(value)
        for choice in self.choices:
            if isinstance(choice, list) and canonical(choice) == value:
                return choice
            if canonical_text(choice) == text:
                return choice
        return value


class BoolParameter(_Parameter):
    """false or true."""

    kind: Literal["bool"]

    @property
    def values(self) -> tuple[ParamValue, ...]:
        """Both."""
        return (False, True)

    def fit(self, value: object) -> tuple[ParamValue] | None:
        """A database may hold them as 0 and 1."""
        return (bool(value),) if isinstance(value, int | float) and value in (0, 1) else None


class ConstantParameter(_Parameter):
    """One value, set wherever `when` holds; recorded with the others, not searched."""

    kind: Literal["constant"]
    value: Any
    """The value: a number, text, true, false, null, or a list of them."""

    @property
    def values(self) -> tuple[ParamValue, ...]:
        """The one."""
        return (canonical(self.value),)

    def decode(self, value: ParamValue) -> Any:  # noqa: ARG002 - there is only one
        """The value as it was written."""
        return self.value


Parameter = Annotated[
    FloatParameter
    | IntParameter
    | Pow2Parameter
    | ChoiceParameter
    | BoolParameter
    | ConstantParameter,
    Field(discriminator="kind"),
]

_MOST_STEPS = 10_000


def canonical(value: object) -> ParamValue:
    """A value as `params` hold it: scalars as they are, lists as JSON text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return canonical_text(value)


def canonical_text(value: object) -> str:
    """JSON text, which tells 1, 1.0, true and "1" apart."""
    return json.dumps(value, default=str)


def _range_text(low: float, high: float, scale: str, step: float | None) -> str:
    notes = [scale, "" if step is None else f"step {step:g}"]
    noted = ", ".join(filter(None, notes))
    return f"{low:g} to {high:g}{f' ({noted})' if noted else ''}"


def _check_range(low: float, high: float, *, log: bool) -> None:
    if low > high:
        raise invalid("low", f"must be at most high = {high:g}, got {low:g}")
    if log and low <= 0:
        raise invalid("low", f"must be more than 0 on a logarithmic scale, got {low:g}")
