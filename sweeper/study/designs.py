"""Suggestions that do not learn: points chosen by their number alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from sweeper.study.parameters import Params, ParamValue
from sweeper.study.space import SearchSpace


def sobol_point(space: SearchSpace, *, seed: int, index: int) -> dict[str, ParamValue]:
    """Point `index` (from 0) of a scrambled Sobol sequence over all parameters."""
    sequence = qmc.Sobol(len(space.parameters), seed=np.random.default_rng(seed))
    if index:
        sequence.fast_forward(index)
    return _at(space, sequence.random(1)[0])


def random_point(space: SearchSpace, *, seed: int, index: int) -> dict[str, ParamValue]:
    """Uniform, each parameter on its own scale."""
    rng = np.random.default_rng([seed, index])
    return _at(space, rng.random(len(space.parameters)))


def grid_point(space: SearchSpace, asked: Iterable[Params]) -> dict[str, ParamValue]:
    """The first valid combination among those that were asked for least often: a grid that is
    finished begins again."""
    visits = Counter(map(_key, asked))
    fewest: tuple[int, dict[str, ParamValue]] | None = None
    for params in space.configurations():
        n = visits[_key(params)]
        if n == 0:
            return params
        if fewest is None or n < fewest[0]:
            fewest = n, params
    assert fewest is not None  # a space in which nothing can run is refused when it is made
    return fewest[1]


def _at(space: SearchSpace, units: NDArray[np.float64]) -> dict[str, ParamValue]:
    """units [number of parameters] in [0, 1) -> the values of the active parameters."""
    params: dict[str, ParamValue] = {}
    for (path, parameter), unit in zip(space.parameters.items(), units, strict=True):
        if space.is_active(path, params):
            params[path] = parameter.at(float(unit))
    return params


def _key(params: Params) -> tuple[tuple[str, str], ...]:
    """Hashable, and telling 1 from true."""
    return tuple(sorted((path, repr(value)) for path, value in params.items()))
