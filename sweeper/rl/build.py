"""AlgorithmSpec -> the network, how it is run, and what trains it."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium

from sweeper.core.timing import PhaseTimer
from sweeper.rl.a2c import A2C
from sweeper.rl.distributions import Distribution, distribution_for
from sweeper.rl.features import Features
from sweeper.rl.learner import Learner
from sweeper.rl.numpy_policy import NumpyPolicy
from sweeper.rl.policy import ActorCritic, AutogradEvaluator, Evaluator
from sweeper.rl.ppo import PPO
from sweeper.rl.spec import A2CSpec, ACKTRSpec, AlgorithmSpec, PPOSpec


class Agent(NamedTuple):
    """Everything that acts and learns."""

    policy: ActorCritic
    evaluator: Evaluator
    distribution: Distribution
    learner: Learner


def build_agent(
    spec: AlgorithmSpec,
    *,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    seed: int,
    timer: PhaseTimer,
) -> Agent:
    """A fresh agent for these spaces; InputError names a space it cannot serve."""
    distribution = distribution_for(action_space)
    features = Features(observation_space)
    policy = ActorCritic(features.size, distribution, spec.network, seed=seed)
    evaluator: Evaluator = (
        NumpyPolicy(policy) if spec.network.gradient == "derived" else AutogradEvaluator(policy)
    )
    learner: Learner
    match spec:
        case PPOSpec():
            learner = PPO(spec, policy, evaluator, seed=seed, timer=timer)
        case A2CSpec() | ACKTRSpec():
            learner = A2C(spec, policy, evaluator, seed=seed, timer=timer)
    return Agent(policy, evaluator, distribution, learner)
