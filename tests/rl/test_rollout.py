from __future__ import annotations

import math

import numpy as np
import pytest
import worlds

from sweeper.core.clock import BudgetSpec, Deadline, ManualClock
from sweeper.core.errors import DivergedError
from sweeper.core.timing import PhaseTimer
from sweeper.envs.normalize import ObservationNormalizer, RewardNormalizer
from sweeper.envs.serial import SerialVecEnv
from sweeper.rl.build import Agent, build_agent
from sweeper.rl.rollout import Collector, build_batch
from sweeper.rl.spec import MLPSpec, PPOSpec

STEPS = BudgetSpec(env_steps=10**9)


def agent_for(env: SerialVecEnv) -> Agent:
    return build_agent(
        PPOSpec(network=MLPSpec(hidden=(8,))),
        observation_space=env.single_observation_space,
        action_space=env.single_action_space,
        seed=0,
        timer=PhaseTimer(ManualClock()),
    )


def collector_for(
    env: SerialVecEnv,
    agent: Agent,
    *,
    n_steps: int,
    clock: ManualClock | None = None,
    normalize: bool = False,
) -> Collector:
    space = env.single_observation_space
    return Collector(
        env,
        agent.evaluator,
        agent.distribution,
        n_steps=n_steps,
        seed=0,
        timer=PhaseTimer(clock or ManualClock()),
        observation_normalizer=ObservationNormalizer(space) if normalize else None,
        reward_normalizer=RewardNormalizer(env.n_envs, gamma=0.99) if normalize else None,
    )


def test_truncation_bootstraps_the_final_observation() -> None:
    with SerialVecEnv([worlds.Constant] * 2) as env:
        agent = agent_for(env)
        collector = collector_for(env, agent, n_steps=20)
        collector.reset()
        rollout = collector.collect(Deadline(ManualClock(), STEPS))
        assert rollout is not None
        t, n, final = rollout.final
        assert list(zip(t.tolist(), n.tolist(), strict=True)) == [(7, 0), (7, 1), (15, 0), (15, 1)]
        # The last observation of the episode, not the first of the next.
        np.testing.assert_array_equal(final, [[1.0, 1.0]] * 4)
        assert rollout.features[8, 0].tolist() == [1.0, 0.0]
        batch = build_batch(rollout, agent.evaluator, gamma=0.9, gae_lambda=0.0)
        value = batch.value.reshape(20, 2)
        final_value = agent.evaluator.values(final)[0]
        # lambda 0: the return is r + gamma V(next)
        returns = batch.returns.reshape(20, 2)
        assert returns[7, 0] == pytest.approx(1.0 + 0.9 * final_value, rel=1e-5)
        assert returns[6, 0] == pytest.approx(1.0 + 0.9 * value[7, 0], rel=1e-5)
        assert collector.statistics.episodes == 4
        assert collector.statistics.mean_return == 8.0
        assert collector.statistics.mean_length == 8.0


def test_rollouts_join_without_a_seam() -> None:
    with SerialVecEnv([worlds.Constant] * 2) as one, SerialVecEnv([worlds.Constant] * 2) as two:
        agent = agent_for(one)
        whole, parts = collector_for(one, agent, n_steps=12), collector_for(two, agent, n_steps=4)
        whole.reset()
        parts.reset()
        deadline = Deadline(ManualClock(), STEPS)
        rollout = whole.collect(deadline)
        assert rollout is not None
        for start in range(0, 12, 4):
            part = parts.collect(deadline)
            assert part is not None
            np.testing.assert_array_equal(part.features, rollout.features[start : start + 5])
            np.testing.assert_array_equal(part.truncated, rollout.truncated[start : start + 4])


def test_a_deadline_cuts_a_rollout_that_is_counted_and_not_learned_from() -> None:
    clock = ManualClock()

    class Ticking(worlds.Constant):
        def step(self, action: int) -> object:
            clock.advance(1.0)
            return super().step(action)

    with SerialVecEnv([Ticking] * 2) as env:
        collector = collector_for(env, agent_for(env), n_steps=100, clock=clock)
        collector.reset()
        deadline = Deadline(clock, BudgetSpec(seconds=9.0))
        assert collector.collect(deadline) is None
        assert deadline.env_steps == 10  # five vector steps of two seconds
        assert deadline.overshoot_seconds == pytest.approx(1.0)  # less than one vector step


def test_halves_in_flight_at_the_deadline_are_finished_and_counted() -> None:
    clock = ManualClock()

    class Ticking(worlds.Constant):
        def step(self, action: int) -> object:
            clock.advance(1.0)
            return super().step(action)

    with SerialVecEnv([Ticking] * 2, n_groups=2) as env:
        collector = collector_for(env, agent_for(env), n_steps=100, clock=clock)
        collector.reset()
        deadline = Deadline(clock, BudgetSpec(seconds=9.0))
        assert collector.collect(deadline) is None
        assert deadline.env_steps == 10  # the ninth, and the other half's in flight
        env.reset()  # nothing is left under way


def test_halves_collect_what_the_whole_would_count() -> None:
    with SerialVecEnv([worlds.Constant] * 3, n_groups=2) as env:
        collector = collector_for(env, agent_for(env), n_steps=9)
        collector.reset()
        deadline = Deadline(ManualClock(), STEPS)
        rollout = collector.collect(deadline)
        assert rollout is not None
        assert deadline.env_steps == 27
        assert rollout.truncated.sum() == 3
        assert [int(n) for n in rollout.final[1]] == [0, 1, 2]


def test_normalized_rewards_and_observations_are_finite_and_scaled() -> None:
    with SerialVecEnv([worlds.Constant] * 4) as env:
        collector = collector_for(env, agent_for(env), n_steps=64, normalize=True)
        collector.reset()
        rollout = collector.collect(Deadline(ManualClock(), STEPS))
        assert rollout is not None
        assert rollout.reward[-1].max() < 1.0  # 1 over the deviation of the return
        assert abs(float(rollout.features[32:, :, 1].mean())) < 0.5
        assert collector.statistics.mean_return == 8.0  # reported as it is


@pytest.mark.parametrize("how", ["nan"])
def test_observations_that_are_not_finite_are_divergence(how: str) -> None:
    with SerialVecEnv([lambda: worlds.Broken(how, after=3)]) as env:
        collector = collector_for(env, agent_for(env), n_steps=8)
        collector.reset()
        with pytest.raises(DivergedError, match="NaN"):
            collector.collect(Deadline(ManualClock(), STEPS))


def test_initial_weights_are_orthogonal_with_the_customary_gains() -> None:
    with SerialVecEnv([worlds.Constant]) as env:
        agent = build_agent(
            PPOSpec(network=MLPSpec(hidden=(16, 16))),
            observation_space=env.single_observation_space,
            action_space=env.single_action_space,
            seed=0,
            timer=PhaseTimer(ManualClock()),
        )
        weights = agent.policy.weights()
        for net in weights.hidden[1][0].detach():
            np.testing.assert_allclose(net @ net.T, 2.0 * np.eye(16), atol=1e-5)
        assert weights.policy_weight.detach().norm(dim=1).numpy() == pytest.approx([0.01] * 2)
        assert weights.value_weight.detach().norm().item() == pytest.approx(1.0)
        assert not math.isclose(
            weights.hidden[0][0][0].detach()[0, 0].item(),
            weights.hidden[0][0][1].detach()[0, 0].item(),
        )
