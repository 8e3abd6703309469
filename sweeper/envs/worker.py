"""What runs in an environment process. Imports numpy and gymnasium, never torch or pydantic.

A worker is given three descriptors: a connection for rare messages (its task, the spaces,
errors), the shared memory, and the lifeline, whose other end only the owner holds.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import random
import select
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

from sweeper.core.errors import InputError, SweeperError
from sweeper.envs.arrays import Carver, carve
from sweeper.envs.block import ActionMode, EnvBlock, EnvFn, close_envs, make_envs
from sweeper.envs.control import CLOSE, IDLE, STEP, Control


@dataclass(frozen=True)
class WorkerTask:
    """What the owner tells a worker first."""

    number: int
    """This worker among `n_workers`."""
    n_workers: int
    env_fns: bytes
    """Pickled list of this worker's functions, in an envelope of its own since loading it
    needs the paths below."""
    rows: slice
    """Its environments among `n_envs`."""
    n_envs: int
    seeds: tuple[int, ...]
    groups: tuple[slice, ...]
    action: ActionMode
    cpus: frozenset[int]
    """CPUs to run on."""
    spin_seconds: float
    """How long to look for the next command before sleeping; 0 where others need the core."""
    directory: str
    import_path: tuple[str, ...]


@dataclass(frozen=True)
class WorkerSpaces:
    """What a worker answers once its environments are made."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]


def run(connection_fd: int, memory_fd: int, lifeline_fd: int) -> None:
    """Serve one VecEnv until it closes; never returns. Its owner's death ends it at once."""
    try:
        die_with_owner(lifeline_fd)
        # Ctrl-C reaches the whole foreground group; what to do about it is the owner's choice.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # The owner's stdout may be a stream of records. What environments print goes to stderr.
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        _serve(Connection(connection_fd), memory_fd)
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - nothing may unwind into a forked parent's frames
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    # Not sys.exit: in a forked process that would run its parent's exit handlers.
    os._exit(0)


def die_with_owner(lifeline_fd: int) -> None:
    """Have the kernel end this process when the lifeline's other end is closed.

    PR_SET_PDEATHSIG would follow the fork server instead of the owner, and the thread that
    started it. A thread that waits for end-of-file could not act while an environment hangs
    in C code that holds the interpreter lock. SIGIO needs neither: its default is to end.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the thread that started us may block it
    # Opened anew, because the signal's addressee belongs to the open file, which workers share.
    mine = os.open(f"/proc/self/fd/{lifeline_fd}", os.O_RDONLY | os.O_NONBLOCK)
    os.close(lifeline_fd)
    fcntl.fcntl(mine, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(mine, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    watch = select.poll()
    watch.register(mine, 0)
    if watch.poll(0):  # closed before the signal was armed
        os._exit(1)


def _serve(connection: Connection, memory_fd: int) -> None:
    task: WorkerTask = connection.recv()
    try:
        envs = _make(task)
    except SweeperError as error:
        _send_error(connection, error)
        return
    try:
        spaces = WorkerSpaces(envs[0].observation_space, envs[0].action_space)
        connection.send(spaces)
        connection.recv()  # every worker has the same spaces, and the memory has its size
        control, blocks = _map(task, memory_fd, spaces, envs)
        _loop(control, blocks, task)
    except SweeperError as error:
        _send_error(connection, error)
    finally:
        complaints = close_envs(envs, task.seeds, first_index=task.rows.start)
        if complaints:
            connection.send(complaints)


def _send_error(connection: Connection, error: SweeperError) -> None:
    # Built anew: the original's cause need not survive pickling.
    connection.send(type(error)(*error.args))


def _make(task: WorkerTask) -> list[gymnasium.Env[Any, Any]]:
    os.chdir(task.directory)
    sys.path[:] = task.import_path
    os.sched_setaffinity(0, task.cpus)
    # For environments that draw from the global generators: forked twins would draw alike.
    random.seed(task.seeds[0])
    np.random.seed(task.seeds[0])
    try:
        env_fns: Sequence[EnvFn] = pickle.loads(task.env_fns)  # noqa: S301 - from our owner
    except Exception as error:
        raise InputError(
            f"environment functions cannot be loaded in a worker ({error}): "
            "define them in a module that can be imported, not in a script or a notebook"
        ) from error
    return make_envs(env_fns, task.seeds, first_index=task.rows.start)


def _map(
    task: WorkerTask, memory_fd: int, spaces: WorkerSpaces, envs: list[gymnasium.Env[Any, Any]]
) -> tuple[Control, dict[int, EnvBlock]]:
    """The control words, and one block for each group that has environments here."""
    memory = mmap.mmap(memory_fd, 0)
    os.close(memory_fd)
    carver = Carver(memory)
    control = Control(carver, n_workers=task.n_workers, n_groups=len(task.groups))
    arrays = carve(carver, spaces.observation_space, spaces.action_space, n_envs=task.n_envs)
    first = task.rows.start
    blocks = {}
    for group, rows in enumerate(task.groups):
        start, stop = max(rows.start, first), min(rows.stop, task.rows.stop)
        if start < stop:
            mine = slice(start - first, stop - first)
            blocks[group] = EnvBlock(
                envs[mine],
                task.seeds[mine],
                arrays.rows(slice(start, stop)),
                first_index=start,
                action=task.action,
                cursor=control.cursors[task.number : task.number + 1],
            )
    return control, blocks


def _loop(control: Control, blocks: dict[int, EnvBlock], task: WorkerTask) -> None:
    number, spin_seconds = task.number, task.spin_seconds
    wait = control.wake[number].wait
    commands = control.commands[number]
    closing = len(commands) - 1
    lanes = [(group, block, control.done[number][group].post) for group, block in blocks.items()]
    while True:
        wait(spin_seconds=spin_seconds)
        if commands[closing] == CLOSE:
            return
        for group, block, post_done in lanes:
            command = commands[group]
            if command != IDLE:
                commands[group] = IDLE
                if command == STEP:
                    block.step()
                else:
                    block.reset()
                post_done()
                break
