"""Env steps per second of the vector layer alone: ours, SB3's, Gymnasium's, and the limit.

    python benchmarks/vec_env.py --env CartPole-v1 --n-envs 8,32

The limit is two processes that each step one environment in a bare loop. Everybody steps
the same environments (`sweeper.envs.factory`) with the same actions, drawn beforehand, and
nobody does anything with what comes back. Workers of the one-process-an-env kinds are
forked, which only shortens their start.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from harness import Contestant, Row, compete, options_of, parser, print_host, report
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env import SubprocVecEnv as SB3SubprocVecEnv

from sweeper.envs.factory import EnvFactory
from sweeper.envs.make import describe, env_factory
from sweeper.envs.serial import SerialVecEnv
from sweeper.envs.spec import EnvSpec
from sweeper.envs.subproc import SubprocVecEnv

N_DRAWN = 512
LIMIT = "bare loop x 2 processes"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--env", default="CartPole-v1,Hopper-v5,Humanoid-v5", help="ids")
    options.add_argument("--n-envs", default="1,2,4,8,16,32")
    options.add_argument("--workers", type=int, default=2, help="of ours")
    options.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    arguments = options.parse_args()
    shared = options_of(arguments)
    seconds = 0.1 if shared.quick else arguments.seconds
    print_host()
    rows: list[Row] = []
    for env_id in arguments.env.split(","):
        for n_envs in map(int, arguments.n_envs.split(",")):
            spec = EnvSpec(id=env_id, action="none")
            with ExitStack() as stack:
                contestants = line_up(stack, spec, n_envs, min(arguments.workers, n_envs), seconds)
                case = f"{env_id}, n_envs {n_envs}"
                rows += compete(case, contestants, reference=LIMIT, options=shared)
    report(rows, shared)


def line_up(
    stack: ExitStack, spec: EnvSpec, n_envs: int, n_workers: int, seconds: float
) -> list[Contestant]:
    """Everybody, started and reset; `stack` closes them."""
    factory = env_factory(spec)
    actions = drawn_actions(describe(spec).action_space, n_envs)
    fns = [factory] * n_envs

    def contestant(name: str, env: Any) -> Contestant:
        stack.callback(env.close)
        env.reset()
        return Contestant(name, lambda: steps_in(env.step, actions, seconds) * n_envs)

    share, cores = -(-n_envs // n_workers), sorted(os.sched_getaffinity(0))

    def ours(cpus: list[int] | None) -> SubprocVecEnv:
        return SubprocVecEnv(fns, envs_per_worker=share, cpus=cpus)

    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    bare_actions = actions.reshape(-1, *actions.shape[2:])
    return [
        Contestant("bare loop", bare_loop(factory, bare_actions, seconds)),
        Contestant(LIMIT, stack.enter_context(bare_processes(factory, bare_actions, seconds))),
        contestant("sweeper serial", SerialVecEnv(fns)),
        contestant(f"sweeper subproc, {n_workers} workers", ours(None)),
        contestant("the same, on cores of their own", ours(cores)),
        contestant("sb3 dummy", DummyVecEnv(fns)),
        contestant("sb3 subproc", SB3SubprocVecEnv(fns, start_method="fork")),
        contestant("gymnasium sync", gymnasium.vector.SyncVectorEnv(fns, autoreset_mode=same_step)),
        contestant(
            "gymnasium async",
            gymnasium.vector.AsyncVectorEnv(fns, context="fork", autoreset_mode=same_step),
        ),
    ]


def drawn_actions(space: gymnasium.Space[Any], n_envs: int) -> NDArray[Any]:
    """[N_DRAWN, n_envs, ...] random actions."""
    space.seed(0)
    return np.array([[space.sample() for _ in range(n_envs)] for _ in range(N_DRAWN)])


def steps_in(step: Callable[[Any], Any], actions: NDArray[Any], seconds: float) -> int:
    """How many times `step` can be called within `seconds`, over the actions again and again."""
    deadline, steps = time.perf_counter() + seconds, 0
    while True:
        for action in actions:
            step(action)
            steps += 1
            if time.perf_counter() > deadline:
                return steps


def bare_loop(factory: EnvFactory, actions: NDArray[Any], seconds: float) -> Callable[[], int]:
    """One environment, stepped and reset with nothing around it."""
    env = factory()
    env.reset(seed=0)
    drawn: Any = actions.tolist() if actions.ndim == 1 else actions

    def step(action: Any) -> None:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()

    return lambda: steps_in(step, drawn, seconds)


@contextmanager
def bare_processes(
    factory: EnvFactory, actions: NDArray[Any], seconds: float, n_processes: int = 2
) -> Iterator[Callable[[], int]]:
    """Bare loops side by side, each told to go once a turn: what the cores can give."""
    context = multiprocessing.get_context("fork")
    ends, processes = [], []
    for _ in range(n_processes):
        mine, theirs = context.Pipe()
        process = context.Process(target=_serve_bare, args=(theirs, factory, actions, seconds))
        process.start()
        ends.append(mine)
        processes.append(process)

    def work() -> int:
        for end in ends:
            end.send("go")
        return sum(end.recv() for end in ends)

    try:
        yield work
    finally:
        for end, process in zip(ends, processes, strict=True):
            end.send(None)
            process.join()


def _serve_bare(
    end: Connection, factory: EnvFactory, actions: NDArray[Any], seconds: float
) -> None:
    work = bare_loop(factory, actions, seconds)
    while end.recv() is not None:
        end.send(work())


if __name__ == "__main__":
    main()
