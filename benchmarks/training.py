"""Whole PPO training, updates included, in env steps per second: ours and SB3's.

    python benchmarks/training.py                        all four cases
    python benchmarks/training.py --case cartpole --rounds 9
    python benchmarks/training.py --cleanrl ~/cleanrl    and CleanRL's, of a checkout

Both train on the same environments with the same hyperparameters (separate 64x64 tanh
networks, Adam, one thread of torch and BLAS, as a trial of ours sets them), on policies that
stay young: each turn goes on where the last one stopped. SB3's is its faster VecEnv for these
sizes, DummyVecEnv; ours is measured on both of its own, on as many workers as there are cores.
The third case has ACKTR beside them, in its own habit of short rollouts. CleanRL's scripts need
tyro and tensorboard; that for continuous actions normalizes observations and rewards as well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from harness import Contestant, Row, compete, options_of, parser, print_host, report
from stable_baselines3 import PPO as SB3PPO
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from threadpoolctl import threadpool_limits

from sweeper.core.clock import BudgetSpec, Deadline, MonotonicClock
from sweeper.core.timing import PhaseTimer
from sweeper.envs.make import make_vec_env
from sweeper.envs.spec import EnvSpec
from sweeper.envs.wrapped import MeteredVecEnv
from sweeper.rl.build import build_learner
from sweeper.rl.spec import ACKTRSpec, PPOSpec
from sweeper.trial.cores import usable_cores, usable_cpus

SB3 = "SB3 PPO, DummyVecEnv"


@dataclass(frozen=True)
class Case:
    """A training setting, and how many rollouts make a turn."""

    env: str
    n_envs: int
    n_steps: int
    n_minibatches: int
    n_epochs: int
    rollouts: int
    acktr_n_steps: int | None = None
    """Where ACKTR is measured as well."""

    def __str__(self) -> str:
        return (
            f"{self.env}, {self.n_envs} envs x {self.n_steps}, "
            f"{self.n_minibatches} minibatches, {self.n_epochs} epochs"
        )


CASES = {
    "cartpole": Case("CartPole-v1", 8, 128, 4, 4, 20),
    "hopper-one": Case("Hopper-v5", 1, 2048, 32, 10, 2),
    "hopper": Case("Hopper-v5", 16, 256, 4, 4, 3, acktr_n_steps=20),
    "humanoid": Case("Humanoid-v5", 16, 256, 4, 4, 1),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--case", default=",".join(CASES), help="of " + ", ".join(CASES))
    options.add_argument("--cleanrl", type=Path, metavar="PATH", help="a checkout of CleanRL")
    arguments = options.parse_args()
    shared = options_of(arguments)
    torch.set_num_threads(1)
    # Idle threads of OpenBLAS spin, and do so on the workers' cores.
    threadpool_limits(1)
    print_host()
    rows: list[Row] = []
    for name in arguments.case.split(","):
        case = CASES[name]
        with ExitStack() as stack:
            contestants = [
                Contestant(SB3, sb3(stack, case)),
                Contestant("sweeper, serial", ours(stack, case, workers=0)),
            ]
            if arguments.cleanrl is not None:
                work = cleanrl(stack, case, arguments.cleanrl.expanduser().resolve())
                contestants.append(Contestant("CleanRL", work))
            workers = min(len(usable_cores()), case.n_envs)
            for overlap in (False, True):
                if case.n_envs > 1 and workers > 1:
                    how = f"{workers} workers" + (", overlapped" if overlap else "")
                    work = ours(stack, case, workers=workers, overlap=overlap)
                    contestants.append(Contestant(f"sweeper, {how}", work))
            if case.acktr_n_steps is not None:
                how = f"{case.n_envs} x {case.acktr_n_steps}, {workers} workers"
                work = ours(stack, case, workers=workers, acktr=True)
                contestants.append(Contestant(f"sweeper ACKTR, {how}", work))
            rows += compete(str(case), contestants, reference=SB3, options=shared)
    report(rows, shared)


def ours(
    stack: ExitStack,
    case: Case,
    *,
    workers: int,
    overlap: bool = False,
    timer: PhaseTimer | None = None,
    acktr: bool = False,
) -> Callable[[], int]:
    spec: PPOSpec | ACKTRSpec = PPOSpec(
        n_steps=case.n_steps, n_minibatches=case.n_minibatches, n_epochs=case.n_epochs
    )
    rollouts = case.rollouts
    if acktr:
        assert case.acktr_n_steps is not None
        spec = ACKTRSpec(n_steps=case.acktr_n_steps)
        rollouts = case.rollouts * case.n_steps // case.acktr_n_steps
    vec_env = stack.enter_context(
        make_vec_env(
            EnvSpec(id=case.env),
            vec_env="subproc" if workers else "serial",
            n_envs=case.n_envs,
            envs_per_worker=-(-case.n_envs // workers) if workers else None,
            n_groups=2 if overlap else 1,
            seed=0,
            cpus=usable_cpus(),  # as a trial pins its workers to the cores that it leased
        )
    )
    timer = timer or PhaseTimer(MonotonicClock())
    metered = MeteredVecEnv(vec_env, timer)
    metered.deadline = deadline = Deadline(MonotonicClock(), BudgetSpec(env_steps=10**15))
    updates = build_learner(spec, metered, seed=0, timer=timer).train(deadline)

    def work() -> int:
        before = deadline.env_steps
        for _ in range(rollouts):
            next(updates)
        return deadline.env_steps - before

    return work


def sb3(stack: ExitStack, case: Case) -> Callable[[], int]:
    vec_env = sb3_make_vec_env(case.env, case.n_envs, seed=0)
    stack.callback(vec_env.close)
    batch = case.n_envs * case.n_steps
    model = SB3PPO(
        "MlpPolicy",
        vec_env,
        n_steps=case.n_steps,
        batch_size=batch // case.n_minibatches,
        n_epochs=case.n_epochs,
        vf_coef=0.25,  # SB3's value loss lacks the 1/2
        device="cpu",
        seed=0,
    )

    def work() -> int:
        model.learn(case.rollouts * batch, reset_num_timesteps=False)
        return case.rollouts * batch

    return work


def cleanrl(stack: ExitStack, case: Case, checkout: Path) -> Callable[[], int]:
    """CleanRL's script, a process that stands still between its turns: it says when a rollout
    has been learned from."""
    script = "ppo.py" if case.env == "CartPole-v1" else "ppo_continuous_action.py"
    arguments = {
        "env-id": case.env,
        "num-envs": case.n_envs,
        "num-steps": case.n_steps,
        "num-minibatches": case.n_minibatches,
        "update-epochs": case.n_epochs,
        "total-timesteps": 10**9,
    }
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="cleanrl-"))
    process = subprocess.Popen(
        [sys.executable, str(checkout / "cleanrl" / script)]
        + [text for key, value in arguments.items() for text in (f"--{key}", str(value))],
        cwd=folder,  # where it logs
        env=os.environ
        | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        | {"CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    process.send_signal(signal.SIGSTOP)

    def work() -> int:
        assert process.stdout is not None
        process.send_signal(signal.SIGCONT)
        to_come = case.rollouts
        while to_come:
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"{script} of {checkout} ended before it was asked to")
            to_come -= line.startswith("SPS:")
        process.send_signal(signal.SIGSTOP)
        return case.rollouts * case.n_envs * case.n_steps

    return work


if __name__ == "__main__":
    main()
