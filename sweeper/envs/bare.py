"""Environments stepped with nothing around them: what the cores can give, at the most."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection, Pipe
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sweeper.envs.factory import EnvFactory
from sweeper.envs.process import start_python

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


def bare_loop(factory: EnvFactory, *, n_envs: int = 1, seed: int = 0) -> Callable[[float], int]:
    """A function of seconds that steps and resets `n_envs` environments in turn for so long,
    with random actions; returns env steps."""
    envs = [factory() for _ in range(n_envs)]
    for index, env in enumerate(envs):
        env.reset(seed=seed + index)
    drawn = draw_actions(envs[0].action_space, n_envs)
    actions: Any = drawn.tolist() if drawn.ndim == 2 else drawn

    def step(row: Any) -> None:
        for env, action in zip(envs, row, strict=True):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return lambda seconds: count_calls(step, actions, seconds) * n_envs


@contextmanager
def bare_processes(
    factory: EnvFactory, cpus: Sequence[int], *, n_envs: int = 1
) -> Iterator[Callable[[float], int]]:
    """A function like that of `bare_loop`, of a process with `n_envs` environments on each of
    `cpus`, side by side: nobody waits for anybody."""
    with ExitStack() as stack:
        ends: list[Connection] = []
        for number, cpu in enumerate(cpus):
            mine, theirs = Pipe()
            with theirs:
                process = start_python(__name__, serve.__name__, (theirs.fileno(),))
            stack.callback(process.wait)
            stack.callback(mine.close)
            mine.send((factory, n_envs, number * n_envs, cpu))
            ends.append(mine)
        for end in ends:
            end.recv()  # its environments are made

        def steps(seconds: float) -> int:
            for end in ends:
                end.send(seconds)
            return sum(end.recv() for end in ends)

        yield steps


def serve(fd: int) -> None:
    """One of `bare_processes`, until the other end of its connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(fd) as end:
        factory, n_envs, seed, cpu = end.recv()
        os.sched_setaffinity(0, {cpu})
        steps = bare_loop(factory, n_envs=n_envs, seed=seed)
        end.send(None)
        while True:
            try:
                seconds = end.recv()
            except EOFError:
                return
            end.send(steps(seconds))
