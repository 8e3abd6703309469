"""`Spec`: the frozen, strict base of everything a user can write in a study file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


class Spec(BaseModel):
    """Immutable input: unknown keys, wrong types, NaN and infinity are refused.

    A field's docstring is its documentation: the JSON Schema and the docs' table of keys
    are generated from it.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )


def _list_as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


as_tuple = BeforeValidator(_list_as_tuple)
"""YAML and JSON write lists; frozen specs hold tuples. `Annotated[tuple[...], as_tuple]`."""

Sizes = Annotated[tuple[Annotated[int, Field(ge=1)], ...], as_tuple]
"""Units of layers, or channels, one after another."""


def invalid(path: str, message: str) -> PydanticCustomError:
    """An error about the key at `path` (dotted, from the model that raises it).

    A check over several keys would otherwise be reported at their common parent; the
    loader uses `path` to name the one line that the user should look at.
    """
    return PydanticCustomError("sweeper", "{message}", {"message": message, "path": path})
