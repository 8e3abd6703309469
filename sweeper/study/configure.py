"""Values at dotted paths, put into a trial."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from sweeper.core.spec import Spec
from sweeper.rl.foreign import ForeignSpec
from sweeper.study.schema import walk
from sweeper.trial.spec import TrialSpec


def configured(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a trial: `base` (the keys that were given, no defaults) with each value set
    at its dotted path. Nothing is validated.

    Kinds (`optimizer.kind`) are set first, outermost first. Where that changes a kind, keys
    that the new kind does not have are dropped and those that both have are kept; between our
    algorithms and foreign ones, and from one of those to another, none is.
    """
    data = copy.deepcopy(dict(base))
    for path in sorted(values, key=lambda path: (not path.endswith("kind"), path.count("."))):
        *parents, key = path.split(".")
        container = _container(data, parents)
        before = walk(TrialSpec, data, parents)
        changes = container.get(key) != values[path]
        container[key] = copy.deepcopy(values[path])
        if key == "kind" and changes:
            for stray in _strays(container, before, walk(TrialSpec, data, parents)):
                del container[stray]
    return data


def _strays(keys: Iterable[str], before: Any, after: Any) -> set[str]:
    """Those of a section's keys that do not outlive the change of its kind."""
    if not _is_spec(after):
        return set()
    foreign = [cls for cls in (before, after) if _is_spec(cls) and issubclass(cls, ForeignSpec)]
    return {*keys} - ({"kind"} if foreign else after.model_fields.keys())


def _is_spec(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, Spec)


def _container(data: dict[str, Any], parents: list[str]) -> dict[str, Any]:
    """The mapping at `parents`; where the base leaves it out, the default's values."""
    here = data
    for depth, key in enumerate(parents):
        if not isinstance(here.get(key), dict):
            cls = walk(TrialSpec, data, parents[:depth])
            fields = cls.model_fields if _is_spec(cls) else {}
            default = fields[key].default if key in fields else None
            here[key] = default.model_dump() if isinstance(default, Spec) else {}
        here = here[key]
    return here
