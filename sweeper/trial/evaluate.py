"""Evaluation: the policy as it stands, on environments of its own, off the budget.

Episode i is seeded by the i-th child of the evaluation seed, whichever environment plays it:
all trials of a study face the same episodes. Normalization statistics are frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from sweeper.core.clock import Clock
from sweeper.core.records import Evaluation
from sweeper.envs.normalize import ObservationNormalizer
from sweeper.envs.vec_env import Observation
from sweeper.rl.build import Agent
from sweeper.rl.features import Features
from sweeper.trial.spec import EvaluationSpec

AT_ONCE = 8
"""Environments played together, so that one forward pass serves several."""


@dataclass(slots=True)
class _Game:
    """One environment and the episode that it plays."""

    env: gymnasium.Env[Any, Any]
    episode: int
    observation: Any
    total: float = 0.0
    length: int = 0


def evaluate(
    agent: Agent,
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    spec: EvaluationSpec,
    *,
    deterministic: bool,
    normalizer: ObservationNormalizer | None,
    clock: Clock,
) -> list[Evaluation]:
    """Play `spec.episodes` episodes; those that `spec.max_seconds` cuts count as truncated."""
    seeds = np.random.SeedSequence(spec.seed).generate_state(spec.episodes).tolist()
    rng = np.random.default_rng(spec.seed)
    deadline = clock.now() + spec.max_seconds
    results: list[Evaluation] = []
    waiting = iter(range(spec.episodes))
    envs = [make_env() for _ in range(min(AT_ONCE, spec.episodes))]

    def finish(game: _Game, *, truncated: bool) -> None:
        seed = seeds[game.episode]
        results.append(
            Evaluation(game.episode, seed, deterministic, game.total, game.length, truncated)
        )

    try:
        encode = Features(envs[0].observation_space)
        games = [game for env in envs if (game := _next_game(env, waiting, seeds))]
        while games and clock.now() < deadline:
            features = np.empty((len(games), encode.size), np.float32)
            observation = _stack(envs[0].observation_space, [g.observation for g in games])
            if normalizer is not None:
                observation = normalizer.normalize(observation)
            encode(observation, features)
            outputs, log_std = agent.evaluator.outputs(features)
            noise = None if deterministic else agent.distribution.noise(rng, (len(games),))
            actions = agent.distribution.to_env(
                agent.distribution.sample(outputs, log_std, noise)
            )
            for i in range(len(games) - 1, -1, -1):
                game = games[i]
                game.observation, reward, terminated, truncated, _ = game.env.step(actions[i])
                game.total += float(reward)
                game.length += 1
                if terminated or truncated:
                    finish(game, truncated=truncated and not terminated)
                    following = _next_game(game.env, waiting, seeds)
                    games[i : i + 1] = [] if following is None else [following]
        for game in games:
            finish(game, truncated=True)
    finally:
        for env in envs:
            env.close()
    return sorted(results, key=lambda evaluation: evaluation.episode)


def _next_game(
    env: gymnasium.Env[Any, Any], waiting: Iterator[int], seeds: list[int]
) -> _Game | None:
    episode = next(waiting, None)
    if episode is None:
        return None
    observation, _ = env.reset(seed=seeds[episode])
    return _Game(env, episode, observation)


def _stack(space: gymnasium.Space[Any], observations: list[Any]) -> Observation:
    """Observations of single environments as the batch that a VecEnv would return."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {
            key: np.stack([np.asarray(o[key]) for o in observations]) for key in space.spaces
        }
    if isinstance(space, gymnasium.spaces.Tuple):
        return {
            str(i): np.stack([np.asarray(o[i]) for o in observations])
            for i in range(len(space.spaces))
        }
    return np.stack([np.asarray(o) for o in observations])
