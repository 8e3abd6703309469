"""What K-FAC buys: env steps, and core seconds, to the same return.

    python benchmarks/kfac.py --out kfac.jsonl --case cartpole,acrobot  # ACKTR against A2C
    python benchmarks/kfac.py --out kfac.jsonl --case humanoid          # PPO; half an hour

Each case gives two learners the same loss, environments and budget of env steps, on several
seeds. A return counts as reached when the mean of a full window of the last 100 training
episodes first gets there; a run that never does counts as its whole budget, and is told.
Core seconds are CPU time, which a busy machine stretches little.

A finished run is a line of `--out`; running again continues, and `--table` only prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from seeds import Job, mean, parser, play

from sweeper.core.records import Measurement, RunResult
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec

LINEAR = {"kind": "linear"}
A2C = {"kind": "a2c", "n_steps": 5, "optimizer": {"kind": "rmsprop", "schedule": LINEAR}}
ACKTR = {"kind": "acktr", "optimizer": {"kind": "kfac", "schedule": LINEAR}}
PPO = {"kind": "ppo", "n_steps": 128, "n_minibatches": 4, "n_epochs": 4}


@dataclass(frozen=True)
class Case:
    """An environment, the return to reach, and the two learners."""

    env: dict[str, Any]
    target: float
    env_steps: int
    n_envs: int
    seeds: int
    first_order: dict[str, Any]
    kfac: dict[str, Any]

    def trial(self, optimizer: str, seed: int) -> TrialSpec:
        """The trial of one of the two learners."""
        return TrialSpec.model_validate(
            {
                "env": self.env,
                "algorithm": getattr(self, optimizer),
                "parallelism": {"vec_env": "serial", "n_envs": self.n_envs},
                "budget": {"env_steps": self.env_steps},
                "evaluation": {"episodes": 20, "max_seconds": 600},
                "limits": {"setup_seconds": 600},
                "seed": seed,
            }
        )


CASES = {
    "cartpole": Case({"id": "CartPole-v1"}, 475.0, 500_000, 8, 5, A2C, ACKTR),
    "acrobot": Case({"id": "Acrobot-v1"}, -100.0, 500_000, 16, 5, A2C, ACKTR),
    "humanoid": Case(
        {"id": "Humanoid-v5", "normalize_observation": True, "normalize_reward": True},
        500.0,
        1_000_000,
        16,
        3,
        {**PPO, "optimizer": {"kind": "adam", "learning_rate": 3e-4, "schedule": LINEAR}},
        {**PPO, "optimizer": {"kind": "kfac", "kfac_update": 10, "schedule": LINEAR}},
    ),
}
OPTIMIZERS = ("first_order", "kfac")


def main() -> None:
    arguments = parser(__doc__, list(CASES)).parse_args()
    names = arguments.case.split(",")
    jobs: list[Job] = [
        (name, optimizer, seed)
        for name in names
        for seed in range(CASES[name].seeds)
        for optimizer in OPTIMIZERS
    ]
    results = play(one, jobs, arguments)
    for name in names:
        by = {o: [r for job, r in results.items() if job[:2] == (name, o)] for o in OPTIMIZERS}
        if all(by.values()):
            print("\n".join(table(CASES[name], by)))


def one(name: str, optimizer: str, seed: int) -> dict[str, Any]:
    """One run, in a process of its own; env steps and core seconds are to the target, or all."""
    case = CASES[name]
    *events, result = run_trial(case.trial(optimizer, seed))
    assert isinstance(result, RunResult)
    assert result.cpu_seconds is not None, result.reason
    there = [e for e in events if isinstance(e, Measurement) and _is_there(e, case.target)]
    steps, seconds = result.env_steps, result.cpu_seconds
    if there:
        first = there[0]
        steps = first.env_steps
        seconds = (first.cpu_utilization or 0.0) * first.elapsed_seconds  # on one core
    return {
        "reached": bool(there),
        "env_steps": steps,
        "core_seconds": seconds,
        "core_microseconds": 1e6 * result.cpu_seconds / result.env_steps,
        "final_return": result.final_return,
        "status": result.status,
    }


def _is_there(event: Measurement, target: float) -> bool:
    mean_return = event.training_return
    return event.episodes >= 100 and mean_return is not None and mean_return >= target


def table(case: Case, by: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """A learner a line, in Markdown, and the factors between them."""
    yield f"\n{case.trial('kfac', 0).env.name}, to a return of {case.target:g}:\n"
    yield "| learner | reached | env steps | core seconds | core us a step | final return |"
    yield "|---|---|---|---|---|---|"
    for optimizer in OPTIMIZERS:
        runs, learner = by[optimizer], getattr(case, optimizer)
        finals = [run["final_return"] for run in runs if run["final_return"] is not None]
        yield (
            f"| {learner['kind']}, {learner['optimizer']['kind']} "
            f"| {sum(run['reached'] for run in runs)} of {len(runs)} "
            f"| {mean([run['env_steps'] for run in runs])} "
            f"| {mean([run['core_seconds'] for run in runs], 1)} "
            f"| {mean([run['core_microseconds'] for run in runs], 1)} | {mean(finals)} |"
        )
    steps, seconds, cost = (
        ratio([run[key] for run in by["first_order"]], [run[key] for run in by["kfac"]])
        for key in ("env_steps", "core_seconds", "core_microseconds")
    )
    yield (
        f"\nK-FAC takes 1/{steps:.2f} of the env steps and 1/{seconds:.2f} of the core seconds, "
        f"at {1 / cost:.2f} x the cost of a step."
    )


def ratio(first: list[float], second: list[float]) -> float:
    """Of the means."""
    return float(np.mean(first) / np.mean(second))


if __name__ == "__main__":
    main()
