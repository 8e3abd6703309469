"""benchmarks/search.py on the runs that it comes with, in a short form."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.slow


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("search")
    with threadpool_limits(1):  # as its own processes have it: the matrices are small
        yield module


def test_a_replayed_study_is_judged_by_true_means_over_simulated_time(search: ModuleType) -> None:
    replay = search.replay(search.DATA, "Pendulum-v1", "sweeper", 0, 4)
    assert 24 <= replay["runs"] <= 56, "8 workers, about 5 runs each"
    quality = replay["quality"]
    assert quality[0] == 0.0, "nothing has ended yet"
    assert quality[-1] > 0.5
    assert len(set(quality)) > 3, "it moves with simulated, not with real time"


def test_noise_is_that_of_the_recorded_seeds(search: ModuleType) -> None:
    surrogate = search.Surrogate(search.load(search.DATA), "Pendulum-v1")
    params = surrogate.space.repair({})
    truth = surrogate.truth(params)
    shown = np.array([surrogate.run(params, seed=seed).final_return for seed in range(200)])
    assert abs(shown.mean() - truth.final_return) < 5 * shown.std() / np.sqrt(200)
    assert shown.std() > 1.0
    again = surrogate.run(params, seed=3)
    assert again.final_return == shown[3], "a seed's luck is its own"
