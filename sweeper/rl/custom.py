"""A user's own learner: its class found by dotted path, its parameters checked. No torch here:
what the class needs, its own module imports."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from sweeper.core.errors import InputError
from sweeper.rl.foreign import CustomSpec
from sweeper.rl.spec import AlgorithmSpec

if TYPE_CHECKING:
    from sweeper.rl.learner import Learner

METHODS = ("train", "act")


def learner_class(path: str) -> Callable[..., Learner]:
    """The class that `package.module:Name` names. Raises InputError, one line, for a module that
    cannot be imported, a name that it lacks, and what is no learner."""
    module_name, _, names = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == module_name
        why = "there is no such module" if missing else f"{type(error).__name__}: {error}"
        first = (why.splitlines() or [""])[0]
        raise InputError(f"{module_name} cannot be imported: {first}") from error
    for name in names.split("."):
        if not hasattr(found, name):
            raise InputError(f"{module_name} has no {names}")
        found = getattr(found, name)
    if not isinstance(found, type):
        raise InputError(f"{path} must be a class, got {type(found).__name__}")
    lacking = [f"`{name}`" for name in METHODS if not callable(getattr(found, name, None))]
    if lacking:
        raise InputError(
            f"{path} is no learner: it has no {' and no '.join(lacking)} (see docs/learners.md)"
        )
    return found


def parameter_model(path: str) -> type[BaseModel] | None:
    """What checks the parameters of the learner at `path`: its `Spec`, a pydantic model; None
    without one. Raises as `learner_class`."""
    model = getattr(learner_class(path), "Spec", None)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def checked_parameters(spec: CustomSpec) -> Any:
    """What a learner is made with: its parameters as its `Spec`, or a dict of them without one.

    Raises InputError as `learner_class`, and pydantic's ValidationError.
    """
    model = parameter_model(spec.kind)
    return spec.parameters if model is None else model.model_validate(spec.parameters)


def discount(spec: AlgorithmSpec) -> float:
    """By what rewards are normalized: gamma. Of a learner of the user's own its parameter of
    that name, 0.99 for one without.

    Raises as `checked_parameters`.
    """
    if not isinstance(spec, CustomSpec):
        return spec.gamma
    parameters = checked_parameters(spec)
    gamma = (
        parameters.get("gamma")
        if isinstance(parameters, dict)
        else getattr(parameters, "gamma", None)
    )
    return float(gamma) if isinstance(gamma, int | float) else 0.99
