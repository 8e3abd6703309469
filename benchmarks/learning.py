"""Do the learners reach what they should? Returns after a budget of env steps, beside SB3's.

    python benchmarks/learning.py --out learning.jsonl
    python benchmarks/learning.py --out learning.jsonl --case cartpole,hopper --processes 2

Each case is a trial of ours, on several seeds, and the same hyperparameters in
Stable-Baselines3 where it has the algorithm: it runs what `sweeper export --format sb3` writes.
Both are evaluated by the same 20 deterministic episodes, with frozen statistics. Budgets are
env steps, so the machine may be busy meanwhile; seconds are told and not compared.

A finished run is a line of `--out`; running again continues, and `--table` only prints.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from seeds import Job, difference, mean, parser, play

from sweeper.core.records import RunResult
from sweeper.envs.block import env_seeds
from sweeper.envs.make import env_factory
from sweeper.report.peers import sb3_script
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec

OURS, SB3 = "sweeper", "sb3"

BASELINES_MUJOCO: dict[str, Any] = {
    "kind": "ppo",
    "n_steps": 2048,
    "n_minibatches": 32,
    "n_epochs": 10,
    "optimizer": {"kind": "adam", "learning_rate": 3e-4, "schedule": {"kind": "linear"}},
}


@dataclass(frozen=True)
class Case:
    """A trial, how long, on how many seeds, and what others report for it."""

    env: dict[str, Any]
    algorithm: dict[str, Any]
    n_envs: int
    env_steps: int
    seeds: int
    anchor: str
    has_sb3: bool = True

    def trial(self, seed: int) -> TrialSpec:
        """The trial with this seed."""
        return TrialSpec.model_validate(
            {
                "env": self.env,
                "algorithm": self.algorithm,
                "parallelism": {"vec_env": "serial", "n_envs": self.n_envs},
                "budget": {"env_steps": self.env_steps},
                "evaluation": {"episodes": 20, "max_seconds": 600},
                "limits": {"setup_seconds": 600},
                "seed": seed,
            }
        )


def mujoco(env_id: str, anchor: str) -> Case:
    """Baselines' defaults, with its normalization."""
    env = {"id": env_id, "normalize_observation": True, "normalize_reward": True}
    return Case(env, BASELINES_MUJOCO, 1, 1_000_000, 3, anchor)


CARTPOLE = {
    "kind": "ppo",
    "n_steps": 32,
    "n_minibatches": 1,
    "n_epochs": 20,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "clip_range_schedule": {"kind": "linear"},
    "optimizer": {"kind": "adam", "learning_rate": 1e-3, "schedule": {"kind": "linear"}},
}
ACROBOT = {
    "kind": "ppo",
    "n_steps": 256,
    "n_minibatches": 64,
    "n_epochs": 4,
    "gae_lambda": 0.94,
    "optimizer": {"kind": "adam", "learning_rate": 3e-4},
}
PENDULUM = {
    "kind": "ppo",
    "n_steps": 1024,
    "n_minibatches": 64,
    "n_epochs": 10,
    "gamma": 0.9,
    "optimizer": {"kind": "adam", "learning_rate": 1e-3},
}
LUNAR = {
    "kind": "ppo",
    "n_steps": 1024,
    "n_minibatches": 256,
    "n_epochs": 4,
    "gamma": 0.999,
    "gae_lambda": 0.98,
    "entropy_coef": 0.01,
    "optimizer": {"kind": "adam", "learning_rate": 3e-4},
}
PONG = {
    "id": "ale_py:ALE/Pong-v5",
    "kwargs": {"frameskip": 1},  # AtariPreprocessing skips frames itself
    "wrappers": [
        {"wrapper": "gymnasium.wrappers:AtariPreprocessing"},
        {"wrapper": "gymnasium.wrappers:FrameStackObservation", "kwargs": {"stack_size": 4}},
    ],
}
ATARI = {  # the customary setting, but for a rate four times as high: the run is short
    "kind": "ppo",
    "network": {"kind": "cnn"},
    "n_steps": 128,
    "n_minibatches": 4,
    "n_epochs": 4,
    "clip_range": 0.1,
    "entropy_coef": 0.01,
    "optimizer": {"kind": "adam", "learning_rate": 1e-3, "schedule": {"kind": "linear"}},
}
NORMALIZED = {"normalize_observation": True, "normalize_reward": True}

CASES = {
    "cartpole": Case({"id": "CartPole-v1"}, CARTPOLE, 8, 100_000, 5, "500 (rl-zoo, 1 seed)"),
    "acrobot": Case(
        {"id": "Acrobot-v1", **NORMALIZED}, ACROBOT, 16, 500_000, 5, "-86 +- 1 (CleanRL, 3 seeds)"
    ),
    "pendulum": Case({"id": "Pendulum-v1"}, PENDULUM, 4, 100_000, 5, "-172 (rl-zoo, 1 seed)"),
    "lunarlander": Case({"id": "LunarLander-v3"}, LUNAR, 16, 1_000_000, 5, "242 (rl-zoo, 1 seed)"),
    "hopper": mujoco("Hopper-v5", "2383 +- 272 (CleanRL, v4, 3 seeds); 2316 (Baselines, 6)"),
    "halfcheetah": mujoco("HalfCheetah-v5", "1443 +- 46 (CleanRL, v4, 3 seeds)"),
    "pong": Case(
        PONG, ATARI, 8, 500_000, 1, "-20.7 (no training); 19.2 at 5M (ACKTR, rl-baselines-zoo)"
    ),
    "cartpole-a2c": Case(
        {"id": "CartPole-v1"},
        {
            "kind": "a2c",
            "entropy_coef": 0.0,
            "optimizer": {"kind": "rmsprop", "learning_rate": 7e-4, "schedule": {"kind": "linear"}},
        },
        8,
        500_000,
        5,
        "500 (rl-zoo, 1 seed)",
    ),
    "cartpole-acktr": Case(
        {"id": "CartPole-v1"},
        {"kind": "acktr"},
        8,
        500_000,
        5,
        "488 +- 64 at 1M (rl-baselines-zoo, 1 seed)",
        has_sb3=False,
    ),
    "acrobot-acktr": Case(
        {"id": "Acrobot-v1"},
        {"kind": "acktr"},
        16,
        500_000,
        5,
        "-91 (rl-baselines-zoo, 1 seed)",
        has_sb3=False,
    ),
}


def main() -> None:
    options = parser(__doc__, list(CASES))
    options.add_argument("--quick", action="store_true", help="1 seed, a hundredth of the steps")
    arguments = options.parse_args()
    names = arguments.case.split(",")
    jobs: list[Job] = [
        (name, system, seed, arguments.quick)
        for name in names
        for seed in range(1 if arguments.quick else CASES[name].seeds)
        for system in ((OURS, SB3) if CASES[name].has_sb3 else (OURS,))
    ]
    results = play(one, jobs, arguments)
    print("| environment, algorithm | env steps | sweeper | SB3 | difference | reported |")
    print("|---|---|---|---|---|---|")
    for name in names:
        ours, theirs = (
            [
                result["final_return"]
                for job, result in results.items()
                if job[:2] == (name, system) and job[3] == arguments.quick
            ]
            for system in (OURS, SB3)
        )
        print(row(CASES[name], ours, theirs))


def row(case: Case, ours: list[float], theirs: list[float]) -> str:
    """A line of the table, in Markdown."""
    trial = case.trial(0)
    return (
        f"| {trial.env.name}, {trial.algorithm.name} | {case.env_steps:,} | {mean(ours)} "
        f"| {mean(theirs) if case.has_sb3 else 'has none'} | {difference(ours, theirs)} "
        f"| {case.anchor} |"
    )


def one(name: str, system: str, seed: int, quick: bool) -> dict[str, Any]:
    """One run, in a process of its own."""
    case = CASES[name]
    trial = case.trial(seed)
    if quick:
        steps = max(case.env_steps // 100, trial.batch_size or 1)
        trial = trial.model_copy(
            update={"budget": trial.budget.model_copy(update={"env_steps": steps})}
        )
    begun = time.perf_counter()
    final_return, training_return = (train_ours if system == OURS else train_sb3)(trial)
    return {
        "final_return": final_return,
        "training_return": training_return,
        "seconds": time.perf_counter() - begun,
    }


def train_ours(trial: TrialSpec) -> tuple[float, float | None]:
    """Our final return, and the mean of the last 100 training episodes."""
    *_, result = run_trial(trial)
    assert isinstance(result, RunResult)
    assert result.final_return is not None, result.reason
    return result.final_return, result.training_return


def train_sb3(trial: TrialSpec) -> tuple[float, float]:
    """SB3's, evaluated in the same way."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    assert trial.budget.env_steps is not None
    script: dict[str, Any] = {"__name__": "exported"}
    exec(sb3_script(trial, env_steps=trial.budget.env_steps), script)
    env = make_vec_env(env_factory(trial.env), trial.parallelism.n_envs, seed=trial.seed)
    flags = trial.env.normalize_observation, trial.env.normalize_reward
    if any(flags):
        env = VecNormalize(
            env, norm_obs=flags[0], norm_reward=flags[1], gamma=script["kwargs"]["gamma"]
        )
    algorithm = getattr(stable_baselines3, trial.algorithm.kind.upper())
    model = algorithm(env=env, device="cpu", **script["kwargs"])
    model.learn(trial.budget.env_steps)
    judge = env_factory(trial.env)()
    returns = []
    for seed in env_seeds(trial.evaluation.seed, trial.evaluation.episodes):
        observation, _ = judge.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            if isinstance(env, VecNormalize):
                observation = env.normalize_obs(observation)
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = judge.step(action)
            total += float(reward)
            ended = terminated or truncated
        returns.append(total)
    return fmean(returns), fmean(float(info["r"]) for info in model.ep_info_buffer)


if __name__ == "__main__":
    main()
