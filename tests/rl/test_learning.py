"""Learners learn: bounds that one with broken truncation, advantages or signs would miss."""

from __future__ import annotations

from typing import Any

import pytest

from sweeper.core.records import Measurement, RunResult, RunStatus
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec

CARTPOLE_PPO = {
    "kind": "ppo",
    "n_steps": 32,
    "n_minibatches": 1,
    "n_epochs": 10,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "optimizer": {"kind": "adam", "learning_rate": 1e-3, "schedule": {"kind": "linear"}},
}


def final(algorithm: dict[str, Any], env: dict[str, Any], *, env_steps: int, seed: int) -> float:
    trial = TrialSpec.model_validate(
        {
            "env": env,
            "algorithm": algorithm,
            "parallelism": {"vec_env": "serial", "n_envs": 8},
            "budget": {"env_steps": env_steps},
            "seed": seed,
        }
    )
    *events, result = run_trial(trial)
    assert isinstance(result, RunResult)
    assert result.status is RunStatus.COMPLETED, result.reason
    for event in events:
        if isinstance(event, Measurement):
            assert (event.kfac_nu is not None) == (trial.algorithm.optimizer.kind == "kfac")
    assert result.final_return is not None
    return result.final_return


@pytest.mark.parametrize("gradient", ["derived", "autograd"])
def test_ppo_learns_to_match(gradient: str) -> None:
    algorithm = {
        "kind": "ppo",
        "n_steps": 16,
        "n_minibatches": 4,
        "optimizer": {"kind": "adam", "learning_rate": 3e-3},
        "network": {"gradient": gradient},
    }
    env = {"make": "worlds:Matching"}
    assert final(algorithm, env, env_steps=6_000, seed=0) == 10.0


@pytest.mark.parametrize("kind", ["adam", "adamw", "rmsprop", "sgd", "muon"])
def test_a2c_learns_to_match_under_every_optimizer(kind: str) -> None:
    rate = {"sgd": 0.1, "rmsprop": 3e-3}.get(kind, 1e-2)
    algorithm = {"kind": "a2c", "optimizer": {"kind": kind, "learning_rate": rate}}
    env = {"make": "worlds:Matching"}
    assert final(algorithm, env, env_steps=20_000, seed=0) >= 9.0


@pytest.mark.parametrize("gradient", ["derived", "autograd"])
def test_acktr_learns_to_match_within_forty_updates(gradient: str) -> None:
    algorithm = {"kind": "acktr", "network": {"gradient": gradient}}
    env = {"make": "worlds:Matching"}
    assert final(algorithm, env, env_steps=6_000, seed=0) == 10.0


def test_ppo_learns_to_match_under_kfac() -> None:
    algorithm = {
        "kind": "ppo",
        "n_steps": 16,
        "n_minibatches": 2,
        "n_epochs": 4,
        "optimizer": {"kind": "kfac", "kfac_update": 4},
    }
    assert final(algorithm, {"make": "worlds:Matching"}, env_steps=6_000, seed=0) == 10.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_ppo_solves_cartpole_in_a_hundred_thousand_steps(seed: int) -> None:
    assert final(CARTPOLE_PPO, {"id": "CartPole-v1"}, env_steps=100_000, seed=seed) >= 475


@pytest.mark.slow
def test_a2c_solves_cartpole() -> None:
    algorithm = {
        "kind": "a2c",
        "n_steps": 8,
        "gamma": 0.99,
        "optimizer": {"kind": "rmsprop", "learning_rate": 1e-3, "schedule": {"kind": "linear"}},
    }
    assert final(algorithm, {"id": "CartPole-v1"}, env_steps=500_000, seed=0) >= 400


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_acktr_solves_cartpole_in_two_hundred_thousand_steps(seed: int) -> None:
    assert final({"kind": "acktr"}, {"id": "CartPole-v1"}, env_steps=200_000, seed=seed) >= 400


@pytest.mark.slow
@pytest.mark.parametrize("factored_damping", [False, True])
def test_acktr_stays_finite_for_two_thousand_updates_of_continuous_control(
    factored_damping: bool,
) -> None:
    algorithm = {
        "kind": "acktr",
        "n_steps": 8,
        "gamma": 0.9,
        "optimizer": {"kind": "kfac", "factored_damping": factored_damping},
    }
    # COMPLETED is asserted: anything that is not finite would have ended the run.
    assert final(algorithm, {"id": "Pendulum-v1"}, env_steps=8 * 8 * 2000, seed=0) > -2000


@pytest.mark.slow
def test_ppo_swings_up_the_pendulum() -> None:
    algorithm = {
        "kind": "ppo",
        "n_steps": 256,
        "n_minibatches": 16,
        "n_epochs": 10,
        "gamma": 0.9,
        "gae_lambda": 0.95,
        "optimizer": {"kind": "adam", "learning_rate": 1e-3},
    }
    env = {"id": "Pendulum-v1"}
    assert final(algorithm, env, env_steps=200_000, seed=0) >= -400
