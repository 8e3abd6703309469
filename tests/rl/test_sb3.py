"""Stable-Baselines3's PPO and A2C under our budget and measuring."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from sweeper.core.clock import BudgetSpec, Deadline, ManualClock, MonotonicClock
from sweeper.core.errors import InputError
from sweeper.core.records import Measurement, RunResult, RunStatus
from sweeper.core.timing import PhaseTimer
from sweeper.envs.make import make_vec_env
from sweeper.envs.spec import EnvSpec
from sweeper.envs.wrapped import MeteredVecEnv
from sweeper.rl.foreign import SB3A2CSpec, SB3PPOSpec, SB3Spec
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec


def learner_on(
    env: dict[str, Any], *, n_envs: int = 2, cls: type[SB3Spec] = SB3PPOSpec, **parameters: Any
):
    from sweeper.rl.sb3 import SB3Learner

    timer = PhaseTimer(MonotonicClock())
    vec_env = make_vec_env(EnvSpec(**env), vec_env="serial", n_envs=n_envs, seed=0)
    metered = MeteredVecEnv(vec_env, timer)
    return SB3Learner(cls(**parameters), metered, seed=0, timer=timer), metered


def trained(learner, metered: MeteredVecEnv, deadline: Deadline) -> list[Any]:
    metered.deadline = deadline
    return list(learner.train(deadline))


def steps(n: int) -> Deadline:
    return Deadline(MonotonicClock(), BudgetSpec(env_steps=n))


@pytest.mark.slow
def test_it_learns_cartpole():
    def final_return(env_steps: int) -> float:
        trial = TrialSpec.model_validate(
            {
                "env": {"id": "CartPole-v1"},
                "algorithm": {"kind": "sb3", "n_steps": 64, "batch_size": 128},
                "parallelism": {"vec_env": "serial", "n_envs": 8},
                "budget": {"env_steps": env_steps},
            }
        )
        *events, result = run_trial(trial)
        assert isinstance(result, RunResult)
        assert result.status is RunStatus.COMPLETED, result.reason
        assert result.env_steps == env_steps
        assert result.updates == env_steps // 512
        assert result.phases.gradient > 0 < result.phases.inference
        for event in events:
            if isinstance(event, Measurement):
                assert event.learning_rate == 3e-4
                assert None not in (event.approx_kl, event.entropy, event.value_loss)
        assert result.final_return is not None
        return result.final_return

    assert final_return(30_720) > 150 + final_return(512)


SPECS = {"PPO": SB3PPOSpec, "A2C": SB3A2CSpec}


@pytest.mark.parametrize("name", SPECS)
def test_defaults_are_its_own(name: str):
    import stable_baselines3

    theirs = inspect.signature(getattr(stable_baselines3, name)).parameters
    ours = SPECS[name]()
    shared = type(ours).model_fields.keys() & theirs.keys()
    assert len(shared) >= 9
    for key in shared:
        assert getattr(ours, key) == theirs[key].default, key


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("PPO", {"n_steps": 16, "batch_size": 8, "n_epochs": 2}),
        ("A2C", {}),
        ("A2C", {"use_rms_prop": False, "normalize_advantage": True}),
    ],
)
def test_training_is_what_its_own_learn_does(name: str, parameters: dict[str, Any]):
    import stable_baselines3
    import torch

    from sweeper.rl.sb3_vec_env import SB3VecEnv

    learner, metered = learner_on({"make": "worlds:Matching"}, cls=SPECS[name], **parameters)
    updates = trained(learner, metered, steps(320))
    assert len(updates) == 320 // (2 * learner.model.n_steps)
    assert all(None not in (s.learning_rate, s.policy_loss, s.value_loss) for s in updates)
    inner = make_vec_env(EnvSpec(make="worlds:Matching"), vec_env="serial", n_envs=2, seed=0)
    peer = getattr(stable_baselines3, name)
    model = peer("MlpPolicy", SB3VecEnv(inner), seed=0, device="cpu", **parameters)
    model.learn(total_timesteps=320)
    for ours, theirs in zip(
        learner.model.policy.parameters(), model.policy.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_its_rate_follows_the_share_of_the_budget_that_is_spent():
    learner, metered = learner_on(
        {"make": "worlds:Matching"},
        n_steps=8,
        batch_size=16,
        n_epochs=1,
        learning_rate=1.0,
        learning_rate_schedule={"kind": "linear"},
    )
    rates = [s.learning_rate for s in trained(learner, metered, steps(64))]
    assert rates == pytest.approx([0.75, 0.5, 0.25, 0.0])


def test_a_rollout_that_the_budget_just_pays_for_is_learned_from():
    learner, metered = learner_on({"make": "worlds:Matching"}, n_steps=8, batch_size=16, n_epochs=1)
    deadline = steps(16)
    assert len(trained(learner, metered, deadline)) == 1
    assert deadline.env_steps == 16
    deadline = steps(20)
    assert len(trained(learner, metered, deadline)) == 1
    assert deadline.env_steps == 20, "and one that it does not is cut short"


def test_an_update_ends_between_two_minibatches_when_time_is_up():
    learner, metered = learner_on({"make": "worlds:Matching"}, n_steps=8, batch_size=4, n_epochs=3)
    clock, taken = ManualClock(), []

    def take(*_: Any) -> None:
        taken.append(clock.now())
        clock.advance(4.0)

    learner.model.policy.optimizer.register_step_post_hook(take)
    assert trained(learner, metered, Deadline(clock, BudgetSpec(seconds=10))) == []
    assert taken == [0.0, 4.0, 8.0]


def test_a_truncated_episode_is_told_from_a_terminated_one():
    from sweeper.rl.sb3_vec_env import SB3VecEnv

    inner = make_vec_env(
        EnvSpec(make="worlds:Constant", kwargs={"length": 3}), vec_env="serial", n_envs=2, seed=0
    )
    vec_env = SB3VecEnv(inner)
    first = vec_env.reset()
    kept = first.copy()
    for step in range(3):
        observation, reward, ended, infos = vec_env.step(np.zeros(2, np.int64))
        assert ended.tolist() == [step == 2] * 2
        assert reward.tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(first, kept, err_msg="what it keeps is not overwritten")
    assert all(info["TimeLimit.truncated"] for info in infos)
    np.testing.assert_array_equal(infos[0]["terminal_observation"], [1.0, 1.0])
    np.testing.assert_array_equal(observation[0], [1.0, 0.0])


def sampler(observation: spaces.Space[Any], action: spaces.Space[Any]) -> dict[str, Any]:
    kwargs = {"observation_space": observation, "action_space": action}
    return {"make": "envs.toys:Sampler", "kwargs": kwargs}


@pytest.mark.parametrize(
    ("cls", "parameters"), [(SB3PPOSpec, {"batch_size": 8, "n_epochs": 1}), (SB3A2CSpec, {})]
)
def test_dict_observations_and_continuous_actions_are_served(
    cls: type[SB3Spec], parameters: dict[str, Any]
):
    observation = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
    env = sampler(observation, spaces.Box(-2, 2, (3,)))
    learner, metered = learner_on(env, cls=cls, n_steps=8, **parameters)
    assert len(trained(learner, metered, steps(32))) == 2
    seen = metered.reset()
    action = learner.act(seen, np.random.default_rng(0))
    assert action.shape == (2, 3)
    np.testing.assert_array_equal(action, learner.act(seen, np.random.default_rng(0)))


def test_a_space_that_it_cannot_serve_is_refused():
    unbounded = sampler(spaces.Box(-1, 1, (2,)), spaces.Box(-np.inf, np.inf, (1,)))
    with pytest.raises(InputError, match=r"Stable-Baselines3 cannot train on this: .*finite"):
        learner_on(unbounded)
