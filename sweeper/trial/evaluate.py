"""Evaluation: the policy as it stands, on environments of its own, off the budget.

Each of N environments plays one episode. Their seeds come from the evaluation seed alone, so
that all trials of a study face the same episodes. Normalization statistics are frozen.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sweeper.core.clock import Clock
from sweeper.core.records import Evaluation
from sweeper.core.timing import PhaseTimer
from sweeper.envs.block import env_seeds
from sweeper.envs.make import make_vec_env
from sweeper.envs.normalize import ObservationNormalizer
from sweeper.envs.process import StartMethod
from sweeper.envs.spec import EnvSpec
from sweeper.envs.vec_env import VecEnv
from sweeper.envs.wrapped import NormalizedVecEnv
from sweeper.rl.learner import Learner
from sweeper.trial.spec import EvaluationSpec


def evaluate(
    learner: Learner,
    env: EnvSpec,
    spec: EvaluationSpec,
    *,
    deterministic: bool,
    normalizer: ObservationNormalizer | None,
    clock: Clock,
    vec_env: Literal["serial", "subproc"] = "serial",
    start_method: StartMethod = "forkserver",
) -> list[Evaluation]:
    """Play `spec.episodes` episodes; those that `spec.max_seconds` cuts count as truncated.

    vec_env: `subproc` keeps whatever the environments do to their process, one for all, out
    of this one, as in training; the episodes are the same.
    """
    n = spec.episodes
    seeds = env_seeds(spec.seed, n)
    rng = None if deterministic else np.random.default_rng(spec.seed)
    deadline = clock.now() + spec.max_seconds
    returns, lengths = np.zeros(n), np.zeros(n, np.int64)
    truncated, playing = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    envs: VecEnv = make_vec_env(
        env,
        vec_env=vec_env,
        n_envs=n,
        envs_per_worker=n,
        start_method=start_method,
        seed=spec.seed,
    )
    if normalizer is not None:
        timer = PhaseTimer(clock)  # nobody asks it: evaluation is off the budget
        envs = NormalizedVecEnv(envs, observation=normalizer, reward=None, timer=timer, frozen=True)
    with envs:
        observation = envs.reset()
        while playing.any() and clock.now() < deadline:
            step = envs.step(learner.act(observation, rng))
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
