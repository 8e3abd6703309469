"""Environments stepped with nothing around them: what the cores can give, at the most."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sweeper.envs.factory import EnvFactory

N_DRAWN = 256
"""Actions are drawn beforehand, so many, and used again and again."""


def draw_actions(space: gymnasium.Space[Any], n_envs: int) -> NDArray[Any]:
    """[N_DRAWN, n_envs, ...] random actions."""
    space.seed(0)
    return np.array([[space.sample() for _ in range(n_envs)] for _ in range(N_DRAWN)])


def count_calls(step: Callable[[Any], Any], actions: Any, seconds: float) -> int:
    """How many times `step` can be called within `seconds`, over the actions again and again."""
    deadline, calls = time.perf_counter() + seconds, 0
    while True:
        for action in actions:
            step(action)
            calls += 1
            if time.perf_counter() > deadline:
                return calls


def bare_loop(factory: EnvFactory, seed: int = 0) -> Callable[[float], int]:
    """A function of seconds that steps and resets one environment for so long, with random
    actions; returns env steps."""
    env = factory()
    env.reset(seed=seed)
    drawn = draw_actions(env.action_space, 1)[:, 0]
    actions: Any = drawn.tolist() if drawn.ndim == 1 else drawn

    def step(action: Any) -> None:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()

    return lambda seconds: count_calls(step, actions, seconds)


@contextmanager
def bare_processes(factory: EnvFactory, cpus: Sequence[int]) -> Iterator[Callable[[float], int]]:
    """A function like that of `bare_loop`, of one process on each of `cpus` side by side."""
    context = multiprocessing.get_context("spawn")  # whoever measures may have threads
    ends, processes = [], []
    for number, cpu in enumerate(cpus):
        mine, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, factory, number, cpu), daemon=True)
        process.start()
        theirs.close()
        mine.recv()  # its environment is made
        ends.append(mine)
        processes.append(process)

    def steps(seconds: float) -> int:
        for end in ends:
            end.send(seconds)
        return sum(end.recv() for end in ends)

    try:
        yield steps
    finally:
        for end, process in zip(ends, processes, strict=True):
            end.close()
            process.join()


def _serve(end: Connection, factory: EnvFactory, seed: int, cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    steps = bare_loop(factory, seed)
    end.send(None)
    while True:
        try:
            seconds = end.recv()
        except EOFError:
            return
        end.send(steps(seconds))
