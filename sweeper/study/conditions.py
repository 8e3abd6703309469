"""When a parameter is searched: the tree that `when:` makes of the parameters."""

from __future__ import annotations

from collections.abc import Mapping

from sweeper.core.spec import invalid
from sweeper.study.parameters import Parameter, Params, ParamValue
from sweeper.study.schema import nearest

Conditions = Mapping[str, Mapping[str, tuple[ParamValue, ...]]]
"""Parameter -> parameter it depends on -> values of that one under which it is active."""


def conditions(parameters: Mapping[str, Parameter]) -> Conditions:
    """The `when:` of every parameter, checked: each names a discrete parameter and values
    that it can take."""
    checked: dict[str, Mapping[str, tuple[ParamValue, ...]]] = {}
    for path, parameter in parameters.items():
        allowed: dict[str, tuple[ParamValue, ...]] = {}
        for other, wanted in parameter.when.items():
            where = f"search.{path}.when.{other}"
            if other not in parameters:
                meant = nearest(other, parameters)
                hint = f"; did you mean {meant}?" if meant else ""
                raise invalid(where, f"is not a searched parameter{hint}")
            source = parameters[other]
            if source.values is None:
                raise invalid(where, "is continuous; a condition needs separate values")
            alternatives = wanted if isinstance(wanted, list) else [wanted]
            fits = [source.fit(value) for value in alternatives]
            if not alternatives or None in fits:
                raise invalid(where, "must be a value that the parameter can take, or a list")
            allowed[other] = tuple(fit[0] for fit in fits if fit is not None)
        checked[path] = allowed
    return checked


def parents_first(when: Conditions) -> tuple[str, ...]:
    """The parameters in an order in which each follows those it depends on, otherwise as in
    the file. A circle is refused."""
    ordered: list[str] = []
    waiting = list(when)
    while waiting:
        ready = [path for path in waiting if all(other in ordered for other in when[path])]
        if not ready:
            raise invalid(
                f"search.{waiting[0]}.when", f"goes round in a circle: {', '.join(waiting)}"
            )
        ordered.append(ready[0])
        waiting.remove(ready[0])
    return tuple(ordered)


def is_active(path: str, params: Params, when: Conditions) -> bool:
    """Whether `path` is searched, given the values of the parameters before it."""
    return all(
        other in params and params[other] in allowed for other, allowed in when[path].items()
    )
