"""Which keys a `Spec` has at a dotted path, given which kinds the data chooses."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from sweeper.core.spec import Spec


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely meant, or None when nothing is near."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def spec_classes(annotation: Any) -> tuple[type[Spec], ...]:
    """The Spec classes among the members of an annotation: one, several (a union), none."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return (annotation,)
    if get_origin(annotation) is Annotated:
        return spec_classes(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(cls for member in get_args(annotation) for cls in spec_classes(member))
    return ()


def kind_of(cls: type[Spec]) -> str | None:
    """The `kind` that selects this class in a union, an example where that is a dotted path;
    None for a class that is no kind of anything."""
    field = cls.model_fields.get("kind")
    if field is None:
        return None
    return str((*get_args(field.annotation), *(field.examples or ()))[0])


def walk(model: type[Spec], data: Any, path: Sequence[str | int]) -> Any:
    """What stands at `path`: a Spec class, or the annotation of a leaf; None if there is no
    such key under the kinds that `data` (or else the defaults) choose.

    Below a free-form mapping (`env.kwargs`) every key exists, as `Any`; so do the parameters of
    a learner of the user's own.
    """
    annotation, default, data = _field(model, data, path)
    return _chosen(annotation, default, data) or annotation


def kinds_at(model: type[Spec], data: Any, path: Sequence[str | int]) -> tuple[str, ...]:
    """The kinds to choose from at `path`; empty where nothing is chosen by `kind`."""
    annotation, _, _ = _field(model, data, path)
    return tuple(kind for cls in spec_classes(annotation) if (kind := kind_of(cls)) is not None)


def dotted_paths(model: type[Spec]) -> Iterator[str]:
    """Every key below `model`, over all kinds, in the order of the file; may repeat."""
    for name, field in model.model_fields.items():
        yield name
        for cls in spec_classes(field.annotation):
            yield from (f"{name}.{path}" for path in dotted_paths(cls))


def _field(model: type[Spec], data: Any, path: Sequence[str | int]) -> tuple[Any, Any, Any]:
    """(annotation, default, data) at `path`; the annotation is None where there is no key."""
    annotation: Any = model
    default: Any = None
    for key in path:
        cls = _chosen(annotation, default, data)
        if cls is not None:
            field = cls.model_fields.get(str(key))
            if field is not None:
                annotation, default = field.annotation, field.default
            elif _is_open(cls):
                annotation, default = Any, None
            else:
                return None, None, None
        else:
            annotation, default = _item(annotation), None
        data = _child(data, key)
    return annotation, default, data


def _chosen(annotation: Any, default: Any, data: Any) -> type[Spec] | None:
    """The class that `data` selects by its `kind`; without one, the default's or the only."""
    classes = spec_classes(annotation)
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if kind is None and isinstance(default, Spec):
        return type(default)
    for cls in classes:
        if kind is not None and (kind_of(cls) == kind or (_is_open(cls) and ":" in str(kind))):
            return cls
    return classes[0] if len(classes) == 1 else None


def _is_open(cls: type[Spec]) -> bool:
    return cls.model_config.get("extra") == "allow"


def _item(annotation: Any) -> Any:
    """What a mapping or a list holds; Any stays Any, a scalar holds nothing."""
    if annotation is Any:
        return Any
    if get_origin(annotation) is Annotated:
        return _item(get_args(annotation)[0])
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    return get_args(annotation)[0] if get_origin(annotation) in (list, tuple) else None


def _child(data: Any, key: str | int) -> Any:
    if isinstance(data, Mapping):
        return data.get(key)
    if isinstance(data, Sequence) and isinstance(key, int) and key < len(data):
        return data[key]
    return None
