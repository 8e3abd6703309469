from __future__ import annotations

import numpy as np
import pytest
import worlds

from sweeper.core.clock import BudgetSpec, Deadline, ManualClock
from sweeper.core.timing import PhaseTimer
from sweeper.envs.normalize import ObservationNormalizer, RewardNormalizer
from sweeper.envs.serial import SerialVecEnv
from sweeper.envs.vec_env import VecEnv
from sweeper.envs.wrapped import MeteredVecEnv, NormalizedVecEnv

RIGHT = np.ones(4, np.int64)


def normalized(env: SerialVecEnv, *, frozen: bool = False) -> NormalizedVecEnv:
    return NormalizedVecEnv(
        env,
        observation=ObservationNormalizer(env.single_observation_space),
        reward=RewardNormalizer(env.n_envs, gamma=0.99),
        timer=PhaseTimer(ManualClock()),
        frozen=frozen,
    )


@pytest.mark.parametrize("n_groups", [1, 2])
def test_every_step_and_episode_is_counted_once(n_groups: int) -> None:
    clock = ManualClock()
    timer = PhaseTimer(clock)

    class Ticking(worlds.Constant):
        def step(self, action: int) -> object:
            clock.advance(1.0)
            return super().step(action)

    with MeteredVecEnv(SerialVecEnv([Ticking] * 4, n_groups=n_groups), timer) as env:
        env.reset()
        env.step(RIGHT)
        deadline = env.deadline = Deadline(clock, BudgetSpec(env_steps=100))
        timer.start()
        for _ in range(8):
            env.step(RIGHT)
        for group, rows in enumerate(env.groups):
            env.step_async(RIGHT[rows], group)
            env.step_wait(group)
        clock.advance(5.0)
        timer.stop()
    assert deadline.env_steps == 36  # without the step before there was a deadline
    assert env.statistics.episodes == 4
    assert env.statistics.mean_return == env.statistics.mean_length == 8.0
    assert not env.statistics.is_full
    assert timer.own_seconds("env_wait") == 36.0
    assert timer.own_seconds("other") == 5.0


def test_normalized_rewards_and_observations_are_scaled_and_returns_are_not() -> None:
    with normalized(SerialVecEnv([worlds.Constant] * 4)) as env:
        env.reset()
        observations = []
        for _ in range(64):
            step = env.step(RIGHT)
            observations.append(np.array(step.observation))
        assert step.reward.max() < 1.0  # 1 over the deviation of the return
        assert step.truncated.all()
        assert step.episode_return.tolist() == [8.0] * 4
        assert abs(float(np.stack(observations)[32:, :, 1].mean())) < 0.5
        assert env.single_observation_space.contains(observations[-1][0])


def test_a_final_observation_is_normalized_and_not_learned_from() -> None:
    with normalized(SerialVecEnv([worlds.Constant] * 4)) as env:
        env.reset()
        for _ in range(8):
            step = env.step(RIGHT)
        statistics = env._observation
        assert statistics is not None
        assert statistics.moments.count == 9 * 4  # first observations, and one a step
        last = np.array([[1.0, 1.0]], np.float32)
        expected = statistics.normalize(last).repeat(4, axis=0)
        np.testing.assert_array_equal(step.final_observation, expected)


def test_halves_are_normalized_each_by_its_own_rows() -> None:
    with normalized(SerialVecEnv([worlds.Constant] * 4, n_groups=2)) as env:
        env.reset()
        for _ in range(8):
            for group, rows in enumerate(env.groups):
                env.step_async(RIGHT[rows], group)
                step = env.step_wait(group)
                assert len(step.reward) == len(step.final_observation) == 2
        assert step.truncated.all()


def test_frozen_statistics_stay() -> None:
    with normalized(SerialVecEnv([worlds.Constant] * 4), frozen=True) as env:
        first = env.reset()
        for _ in range(8):
            step = env.step(RIGHT)
        assert env._observation is not None
        assert env._observation.moments.count == 0
        np.testing.assert_array_equal(step.observation, first)


def test_a_wrapper_is_a_vec_env() -> None:
    inner = SerialVecEnv([worlds.Constant] * 4, n_groups=2)
    env: VecEnv = normalized(inner)
    assert (env.n_envs, env.n_workers, env.groups) == (4, 0, inner.groups)
    env.close()
    env.close()
