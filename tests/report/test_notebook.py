from __future__ import annotations

import subprocess
import sys

import pytest

import sweeper
from sweeper.core.clock import BudgetSpec
from sweeper.core.errors import DatabaseError, InputError
from sweeper.store.store import Store
from sweeper.trial.spec import TrialSpec


@pytest.fixture
def url(tmp_path) -> str:
    url = f"sqlite:///{tmp_path / 'sweeper.db'}"
    budget = BudgetSpec(seconds=10)
    config = TrialSpec.model_validate(
        {
            "env": {"id": "CartPole-v1"},
            "algorithm": {"kind": "ppo", "n_steps": 64, "n_minibatches": 4},
            "budget": {"seconds": 10},
        }
    )
    with Store.open(url) as store:
        for name in ("first", "second"):
            ref = store.ensure_study(
                name,
                env="CartPole-v1",
                spec_yaml=name,
                spec_sha256=name,
                objectives={"final_return": "maximize"},
                constraints={},
                budget=budget,
            )
            for n_envs in (4, 8):
                store.add_trial(
                    ref,
                    origin="sampler",
                    sampler="tpe",
                    config=config,
                    params={"parallelism.n_envs": n_envs},
                )
    return url


def test_frames_of_the_views(url):
    with sweeper.open(url) as results:
        assert list(results.studies()["study"]) == ["second", "first"]
        trials = results.trials("first")
        assert list(trials.index) == [1, 2]
        assert list(trials["parallelism.n_envs"]) == [4, 8]
        assert results.front().empty
        assert results.curves("first", trial=1).empty
        assert results.sql("SELECT count(*) AS n FROM trials")["n"][0] == 4
        assert results.pareto("first").layout.annotations[0].text.startswith("No trial")


def test_mistakes_are_told_in_words(url, tmp_path):
    with pytest.raises(DatabaseError, match="no such file"):
        sweeper.open(f"sqlite:///{tmp_path}/none.db")
    with sweeper.open(url) as results:
        with pytest.raises(InputError, match="did you mean 'first'"):
            results.trials("frist")
        with pytest.raises(InputError, match="only one SELECT"):
            results.sql("DELETE FROM trials")
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sweeper.nonsense


def test_importing_the_package_imports_nothing_else():
    code = "import sys; import sweeper; print({'pandas', 'sqlalchemy', 'numpy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"set()\n"
