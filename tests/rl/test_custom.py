"""Learners of a user's own: found by dotted path, parameters checked, trained like any other."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sweeper.core.errors import InputError
from sweeper.core.records import Measurement, RunResult, RunStatus
from sweeper.rl.custom import discount, learner_class
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec


def trial(**algorithm) -> TrialSpec:
    return TrialSpec.model_validate(
        {
            "env": {"make": "worlds:Matching", "normalize_reward": True},
            "algorithm": {"kind": "agents:Guessing", **algorithm},
            "parallelism": {"vec_env": "serial", "n_envs": 4},
            "budget": {"env_steps": 400},
            "evaluation": {"episodes": 2},
        }
    )


def test_a_learner_without_a_spec_is_trained_measured_and_evaluated():
    *events, result = run_trial(trial(anything=[1, {"nested": True}]))
    assert isinstance(result, RunResult)
    assert result.status is RunStatus.COMPLETED, result.reason
    assert (result.env_steps, result.updates, result.episodes) == (400, 100, 40)
    measured = [event for event in events if isinstance(event, Measurement)]
    assert measured[-1].env_steps == 400
    assert measured[-1].learning_rate is None
    assert result.final_return is not None


def test_a_configuration_survives_json():
    spec = trial(layers=[8, 8], rate=0.1, nested={"a": None})
    assert TrialSpec.model_validate_json(spec.model_dump_json()) == spec
    assert spec.algorithm.parameters == {"layers": [8, 8], "rate": 0.1, "nested": {"a": None}}
    assert (spec.algorithm.name, spec.batch_size, spec.minibatch_size) == (
        "agents:Guessing",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_module:A", "no_such_module cannot be imported: there is no such module"),
        ("agents:Missing", "agents has no Missing"),
        ("agents:Guessing.Missing", "agents has no Guessing.Missing"),
        ("agents:not_a_class", "agents:not_a_class must be a class, got function"),
        ("agents:Lazy", "agents:Lazy is no learner: it has no `act`"),
    ],
)
def test_what_is_no_learner_is_refused(path, said):
    with pytest.raises(InputError, match=said):
        learner_class(path)


def test_a_module_that_fails_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_learner.py").write_text("import no_such_module_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="ModuleNotFoundError: No module named 'no_such_module_at"):
        learner_class("broken_learner:A")


@pytest.mark.parametrize("value", [float("nan"), [1.0, float("inf")], {"a": float("-inf")}])
def test_parameters_are_finite(value):
    with pytest.raises(ValidationError, match="must be a finite number"):
        trial(value=value)


def test_rewards_are_discounted_by_its_gamma_if_it_has_one():
    assert discount(trial().algorithm) == 0.99
    assert discount(trial(gamma=0.5).algorithm) == 0.5
