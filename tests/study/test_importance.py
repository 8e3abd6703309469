"""Importances: what mattered, to which objective, among whom."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sweeper.study.importance import is_due
from sweeper.study.rebuild import PastTrial, RebuiltStudy
from sweeper.study.space import SearchSpace
from sweeper.study.spec import StudySpec

RATE, N_ENVS, GAMMA = "algorithm.optimizer.learning_rate", "parallelism.n_envs", "algorithm.gamma"


def space() -> SearchSpace:
    search: dict[str, Any] = {
        N_ENVS: {"kind": "pow2", "low": 1, "high": 32},
        RATE: {"kind": "float", "low": 1e-5, "high": 1e-1, "log": True},
        GAMMA: {"kind": "float", "low": 0.9, "high": 0.99},
    }
    trial = {
        "env": {"id": "CartPole-v1"},
        "algorithm": {"kind": "ppo", "n_steps": 32, "n_minibatches": 1},
        "budget": {"seconds": 10},
    }
    data = {"study": "s", "stop": {"trials": 1}, "trial": trial, "search": search}
    spec = StudySpec.model_validate(data)
    return SearchSpace(spec.trial, spec.search)


def trials(n: int = 120) -> list[PastTrial]:
    """The return is best at a rate of 1e-3, the speed with many environments; gamma is idle."""
    from sweeper.study.designs import sobol_point

    past = []
    for number in range(1, n + 1):
        params = sobol_point(space(), seed=1, index=number)
        rate, n_envs = float(params[RATE] or 0), float(params[N_ENVS] or 0)
        values = (-abs(math.log10(rate) + 3.0), n_envs)
        past.append(PastTrial(number, params, "complete", values))
    return past


def importance(past: list[PastTrial], objective: int, directions: Any) -> dict[str, float]:
    return RebuiltStudy(space(), directions).importance(past, objective, best=0.1, among=0.75)


def test_importances_are_told_anew_the_more_seldom_the_more_trials_there_are() -> None:
    told, before = [], 0
    for feasible in range(1, 1001):
        if is_due(feasible, before):
            told.append(feasible)
            before = feasible
    assert told[:3] == [10, 20, 30]
    assert len(told) < 40


def test_each_objective_has_what_mattered_to_it() -> None:
    both = ["maximize", "maximize"]
    for_return, for_speed = (importance(trials(), i, both) for i in (0, 1))
    assert max(for_return, key=for_return.__getitem__) == RATE
    assert max(for_speed, key=for_speed.__getitem__) == N_ENVS
    assert for_return[RATE] > 0.7
    assert for_speed[N_ENVS] > 0.7
    assert sum(for_return.values()) == pytest.approx(1.0)


def test_what_is_maximized_and_its_negative_minimized_are_the_same() -> None:
    negative = [
        PastTrial(t.number, t.params, t.state, (-t.values[0], t.values[1]))
        for t in trials()
        if t.values
    ]
    assert importance(negative, 0, ["minimize", "maximize"]) == importance(
        trials(), 0, ["maximize", "maximize"]
    )


def test_failed_and_pruned_trials_do_not_count() -> None:
    past = trials()
    more = [PastTrial(1000 + i, {N_ENVS: 1, RATE: 1e-5, GAMMA: 0.9}, "failed") for i in range(50)]
    more += [PastTrial(2000, {N_ENVS: 2, RATE: 1e-5, GAMMA: 0.9}, "pruned")]
    both = ["maximize", "maximize"]
    assert importance([*past, *more], 0, both) == importance(past, 0, both)
