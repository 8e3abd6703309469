"""`sweeper evaluate`: episodes of what was trained."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from sweeper.cli.printing import print_json
from sweeper.core.clock import MonotonicClock
from sweeper.envs.make import make_vec_env
from sweeper.report.metrics import format_metric
from sweeper.trial.checkpoint import Checkpoint
from sweeper.trial.evaluate import evaluate


def evaluate_checkpoint(
    path: Path, *, episodes: int | None, seed: int | None, deterministic: bool, as_json: bool
) -> None:
    """Play, and print the returns. Raises InputError for what is not a checkpoint."""
    checkpoint = Checkpoint.load(path)
    spec = checkpoint.spec
    given = {"episodes": episodes, "seed": seed}
    evaluation = spec.evaluation.model_copy(
        update={key: value for key, value in given.items() if value is not None}
    )
    with make_vec_env(spec.env, vec_env="serial", n_envs=1, seed=spec.seed) as vec_env:
        learner, normalizer = checkpoint.learner_on(vec_env)
        played = evaluate(
            learner,
            spec.env,
            evaluation,
            deterministic=deterministic,
            normalizer=normalizer,
            clock=MonotonicClock(),
        )
    returns = np.array([episode.episode_return for episode in played])
    if as_json:
        print_json(
            {
                "env": spec.env.name,
                "env_steps": checkpoint.env_steps,
                "deterministic": deterministic,
                "mean_return": float(returns.mean()),
                "episodes": [asdict(episode) for episode in played],
            }
        )
        return
    how = "deterministic" if deterministic else "stochastic"
    shown = {
        name: format_metric("final_return", float(value))
        for name, value in (
            ("mean", returns.mean()),
            ("deviation", returns.std()),
            ("least", returns.min()),
            ("most", returns.max()),
        )
    }
    lengths = np.array([episode.length for episode in played])
    print(
        f"{spec.env.name}, {spec.algorithm.name} trained for {checkpoint.env_steps:,d} env steps\n"
        f"{len(played)} {how} episodes: return {shown['mean']} (deviation {shown['deviation']}, "
        f"{shown['least']} to {shown['most']}), {lengths.mean():,.0f} steps each"
    )
