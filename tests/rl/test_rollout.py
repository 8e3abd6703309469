from __future__ import annotations

import math

import numpy as np
import pytest
import worlds

from sweeper.core.clock import BudgetSpec, Deadline, ManualClock
from sweeper.core.errors import DivergedError
from sweeper.core.timing import PhaseTimer
from sweeper.envs.serial import SerialVecEnv
from sweeper.envs.wrapped import MeteredVecEnv
from sweeper.rl.actor_critic import ActorCriticLearner
from sweeper.rl.rollout import Collector, build_batch
from sweeper.rl.spec import MLPSpec, PPOSpec

STEPS = BudgetSpec(env_steps=10**9)


def learner_for(env: SerialVecEnv) -> ActorCriticLearner:
    spec = PPOSpec(network=MLPSpec(hidden=(8,)))
    return ActorCriticLearner(spec, env, seed=0, timer=PhaseTimer(ManualClock()))


def collector_for(
    env: SerialVecEnv,
    deadline: Deadline,
    *,
    n_steps: int,
    learner: ActorCriticLearner | None = None,
) -> Collector:
    """A collector that has been reset, whose steps are counted on `deadline`."""
    timer = PhaseTimer(deadline.clock)
    metered = MeteredVecEnv(env, timer)
    metered.deadline = deadline
    learner = learner or learner_for(env)
    collector = Collector(
        metered,
        learner.encode,
        learner.evaluator,
        learner.distribution,
        n_steps=n_steps,
        seed=0,
        timer=timer,
    )
    collector.reset()
    return collector


def test_truncation_bootstraps_the_final_observation() -> None:
    with SerialVecEnv([worlds.Constant] * 2) as env:
        learner, deadline = learner_for(env), Deadline(ManualClock(), STEPS)
        rollout = collector_for(env, deadline, n_steps=20, learner=learner).collect(deadline)
        assert rollout is not None
        t, n, final = rollout.final
        assert list(zip(t.tolist(), n.tolist(), strict=True)) == [(7, 0), (7, 1), (15, 0), (15, 1)]
        # The last observation of the episode, not the first of the next.
        np.testing.assert_array_equal(final, [[1.0, 1.0]] * 4)
        assert rollout.features[8, 0].tolist() == [1.0, 0.0]
        batch = build_batch(rollout, learner.evaluator, gamma=0.9, gae_lambda=0.0)
        value = batch.value.reshape(20, 2)
        final_value = learner.evaluator.values(final)[0]
        # lambda 0: the return is r + gamma V(next)
        returns = batch.returns.reshape(20, 2)
        assert returns[7, 0] == pytest.approx(1.0 + 0.9 * final_value, rel=1e-5)
        assert returns[6, 0] == pytest.approx(1.0 + 0.9 * value[7, 0], rel=1e-5)


def test_rollouts_join_without_a_seam() -> None:
    with SerialVecEnv([worlds.Constant] * 2) as one, SerialVecEnv([worlds.Constant] * 2) as two:
        learner, deadline = learner_for(one), Deadline(ManualClock(), STEPS)
        whole = collector_for(one, deadline, n_steps=12, learner=learner)
        parts = collector_for(two, deadline, n_steps=4, learner=learner)
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
        deadline = Deadline(clock, BudgetSpec(seconds=9.0))
        collector = collector_for(env, deadline, n_steps=100)
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
        deadline = Deadline(clock, BudgetSpec(seconds=9.0))
        collector = collector_for(env, deadline, n_steps=100)
        assert collector.collect(deadline) is None
        assert deadline.env_steps == 10  # the ninth, and the other half's in flight
        env.reset()  # nothing is left under way


def test_halves_collect_what_the_whole_would_count() -> None:
    with SerialVecEnv([worlds.Constant] * 3, n_groups=2) as env:
        deadline = Deadline(ManualClock(), STEPS)
        rollout = collector_for(env, deadline, n_steps=9).collect(deadline)
        assert rollout is not None
        assert deadline.env_steps == 27
        assert rollout.truncated.sum() == 3
        assert [int(n) for n in rollout.final[1]] == [0, 1, 2]


@pytest.mark.parametrize("how", ["nan"])
def test_observations_that_are_not_finite_are_divergence(how: str) -> None:
    with SerialVecEnv([lambda: worlds.Broken(how, after=3)]) as env:
        deadline = Deadline(ManualClock(), STEPS)
        collector = collector_for(env, deadline, n_steps=8)
        with pytest.raises(DivergedError, match="NaN"):
            collector.collect(deadline)


def test_initial_weights_are_orthogonal_with_the_customary_gains() -> None:
    with SerialVecEnv([worlds.Constant]) as env:
        spec = PPOSpec(network=MLPSpec(hidden=(16, 16)))
        learner = ActorCriticLearner(spec, env, seed=0, timer=PhaseTimer(ManualClock()))
        weights = learner.policy.weights()
        for net in weights.hidden[1][0].detach():
            np.testing.assert_allclose(net @ net.T, 2.0 * np.eye(16), atol=1e-5)
        assert weights.policy_weight.detach().norm(dim=1).numpy() == pytest.approx([0.01] * 2)
        assert weights.value_weight.detach().norm().item() == pytest.approx(1.0)
        assert not math.isclose(
            weights.hidden[0][0][0].detach()[0, 0].item(),
            weights.hidden[0][0][1].detach()[0, 0].item(),
        )
