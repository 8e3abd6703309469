"""Record what the search benchmark replays: real runs of ours, made by the product itself.

For each environment the same quasi-random configurations are run once with one seed, and half of
them again with another, so that the noise between seeds is known. On two cores this takes about
three quarters of an hour; nothing else should run meanwhile.

    python benchmarks/record_search.py                   writes benchmarks/data/search.json.gz
    python benchmarks/record_search.py --quick --out /tmp/search.json.gz
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness import host

from sweeper.store import queries
from sweeper.store.rows import MeasurementRow, RunRow, TrialRow

DATA = Path(__file__).parent / "data" / "search.json.gz"
N_CONFIGURATIONS, N_AGAIN = 100, 50
BUDGETS = {"CartPole-v1": 5.0, "Acrobot-v1": 8.0, "Pendulum-v1": 8.0}
"""Environment -> seconds of training: short, so that configurations differ in how far they get."""
PROGRESS = tuple(np.round(np.linspace(0.05, 1.0, 20), 2).tolist())
"""Shares of the budget at which a curve is kept."""

SEARCH: dict[str, Any] = {
    "parallelism.n_envs": {"kind": "pow2", "low": 1, "high": 64},
    "parallelism.vec_env": {"kind": "choice", "choices": ["serial", "subproc"]},
    "algorithm.n_steps": {"kind": "pow2", "low": 8, "high": 256},
    "algorithm.n_minibatches": {"kind": "pow2", "low": 1, "high": 16},
    "algorithm.n_epochs": {"kind": "int", "low": 1, "high": 20, "log": True},
    "algorithm.gamma": {"kind": "float", "low": 0.9, "high": 0.999},
    "algorithm.gae_lambda": {"kind": "float", "low": 0.8, "high": 1.0},
    "algorithm.optimizer.kind": {"kind": "choice", "choices": ["adam", "rmsprop"]},
    "algorithm.optimizer.learning_rate": {
        "kind": "float",
        "low": 1e-4,
        "high": 1e-2,
        "log": True,
    },
    "algorithm.optimizer.schedule.kind": {"kind": "choice", "choices": ["constant", "linear"]},
}


def study(env_id: str, *, budget: float, trials: int, seed: int) -> dict[str, Any]:
    """A study file's data: quasi-random, each trial once. The same `trials` come for every
    seed, as far as they go."""
    continuous = env_id == "Pendulum-v1"
    return {
        "study": f"{env_id} seed {seed}",
        "stop": {"trials": trials},
        "sampler": {"kind": "qmc"},
        "replicate": {"share": 0.0},
        "trial": {
            "env": {
                "id": env_id,
                "normalize_observation": continuous,
                "normalize_reward": continuous,
            },
            "algorithm": {"kind": "ppo", "n_steps": 32, "n_minibatches": 4},
            "parallelism": {"cores": 1},
            "budget": {"seconds": budget},
            "seed": seed,
        },
        "search": SEARCH,
    }


def record(folder: Path, *, quick: bool) -> dict[str, Any]:
    """Launch the studies and gather their runs."""
    url = f"sqlite:///{folder / 'search.db'}"
    counts = (12, 6) if quick else (N_CONFIGURATIONS, N_AGAIN)
    budgets = {"CartPole-v1": 1.0} if quick else BUDGETS
    environments: dict[str, Any] = {}
    for env_id, budget in budgets.items():
        runs: list[dict[str, Any]] = []
        for seed, trials in enumerate(counts):
            data = study(env_id, budget=budget, trials=trials, seed=seed)
            path = folder / "study.yaml"
            path.write_text(json.dumps(data))  # JSON is YAML
            command = [str(Path(sys.executable).parent / "sweeper"), "launch", str(path)]
            subprocess.run([*command, "--db", url], cwd=folder, check=True)
            runs += gather(url, data["study"])
        trial = study(env_id, budget=budget, trials=1, seed=0)["trial"]
        environments[env_id] = {"budget_seconds": budget, "trial": trial, "runs": runs}
    return {"host": host(), "search": SEARCH, "progress": PROGRESS, "environments": environments}


def gather(url: str, name: str) -> list[dict[str, Any]]:
    """Every completed run of a study."""
    engine = queries.open_reader(url)
    try:
        rows = queries.trials(engine, queries.study(engine, name).study_id)
        return [
            one(trial, run, queries.measurements(engine, run.run_id))
            for trial in rows
            for run in queries.runs(engine, trial.trial_id)
            if run.status == "COMPLETED"
        ]
    finally:
        engine.dispose()


def one(trial: TrialRow, run: RunRow, curve: list[MeasurementRow]) -> dict[str, Any]:
    """A run as the file holds it."""
    known = [m for m in curve if m.training_return is not None]
    progress = [m.progress for m in known]
    returns = [float(m.training_return or 0.0) for m in known]
    return {
        "params": dict(trial.params),
        "final_return": run.final_return,
        "steps_per_second": run.steps_per_second,
        "updates": run.updates,
        "contended": run.contended,
        "overhead_seconds": (run.setup_seconds or 0.0) + (run.evaluate_seconds or 0.0),
        "training_return": [
            round(float(value), 3) for value in np.interp(PROGRESS, progress, returns)
        ]
        if known
        else None,
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few short runs: does it work?")
    options.add_argument("--out", type=Path, default=DATA, metavar="FILE")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recorded = record(Path(folder), quick=arguments.quick)
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_bytes(gzip.compress(json.dumps(recorded).encode()))
    for env_id, environment in recorded["environments"].items():
        print(f"{env_id}: {len(environment['runs'])} runs")


if __name__ == "__main__":
    main()
