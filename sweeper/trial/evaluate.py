"""Evaluation: the policy as it stands, on environments of its own, off the budget.

Each of N environments plays one episode. Their seeds come from the evaluation seed alone, so
that all trials of a study face the same episodes. Normalization statistics are frozen.
"""

from __future__ import annotations

import numpy as np

from sweeper.core.clock import Clock
from sweeper.core.records import Evaluation
from sweeper.envs.block import env_seeds
from sweeper.envs.make import make_vec_env
from sweeper.envs.normalize import ObservationNormalizer
from sweeper.envs.spec import EnvSpec
from sweeper.envs.vec_env import Observation
from sweeper.rl.build import Agent
from sweeper.rl.features import Features
from sweeper.trial.spec import EvaluationSpec


def evaluate(
    agent: Agent,
    env: EnvSpec,
    spec: EvaluationSpec,
    *,
    deterministic: bool,
    normalizer: ObservationNormalizer | None,
    clock: Clock,
) -> list[Evaluation]:
    """Play `spec.episodes` episodes; those that `spec.max_seconds` cuts count as truncated."""
    n = spec.episodes
    seeds = env_seeds(spec.seed, n)
    rng = np.random.default_rng(spec.seed)
    deadline = clock.now() + spec.max_seconds
    returns, lengths = np.zeros(n), np.zeros(n, np.int64)
    truncated, playing = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    with make_vec_env(env, vec_env="serial", n_envs=n, seed=spec.seed) as vec_env:
        encode = Features(vec_env.single_observation_space)
        features = np.empty((n, encode.size), np.float32)
        observation: Observation = vec_env.reset()
        while playing.any() and clock.now() < deadline:
            if normalizer is not None:
                assert not isinstance(observation, dict)  # only Box observations are normalized
                observation = normalizer.normalize(observation)
            encode(observation, features)
            outputs, log_std = agent.evaluator.outputs(features)
            noise = None if deterministic else agent.distribution.noise(rng, (n,))
            action = agent.distribution.sample(outputs, log_std, noise)
            step = vec_env.step(agent.distribution.to_env(action))
            returns[playing] += step.reward[playing]
            lengths[playing] += 1
            ended = playing & (step.terminated | step.truncated)
            returns[ended] = step.episode_return[ended]  # summed in float64
            truncated[ended] = ~step.terminated[ended]
            playing &= ~ended
            observation = step.observation
    truncated[playing] = True
    return [
        Evaluation(i, seeds[i], deterministic, float(returns[i]), int(lengths[i]), bool(cut))
        for i, cut in enumerate(truncated)
    ]
