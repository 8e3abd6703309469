"""`SubprocVecEnv`: environments in worker processes, results in memory that all share.

A step costs one wake-up a worker and one completion, and no pickling: docs/vector-envs.md.
"""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from sweeper.core.errors import (
    EnvError,
    EnvTimeoutError,
    InputError,
    SweeperError,
)
from sweeper.envs.arrays import Carver, carve
from sweeper.envs.block import (
    ActionMode,
    EnvFn,
    check_same_spaces,
    env_seeds,
    policy_action_space,
)
from sweeper.envs.control import CLOSE, RESET, STEP, Control
from sweeper.envs.groups import GroupedArrays, split
from sweeper.envs.link import WorkerLink
from sweeper.envs.process import StartMethod
from sweeper.envs.semaphore import Semaphore
from sweeper.envs.vec_env import Observation, VecStep
from sweeper.envs.worker import WorkerSpaces, WorkerTask

WATCH_SECONDS = 0.1
"""While waiting longer than this, look whether the worker has died or complained."""

SPIN_SECONDS = 2e-4
"""How long to spin, where the core under the spinner is free: the learner for the other
workers once one has finished, workers for the next command. Being put to sleep and woken costs
tens of microseconds on a virtual machine, about what the ends lie apart and what a policy
takes to act."""

CLOSE_SECONDS = 5.0
TERMINATE_SECONDS = 1.0
"""How long workers may take to close their environments, and to heed SIGTERM."""


class SubprocVecEnv:
    """A VecEnv of worker processes; see `sweeper.envs.vec_env.VecEnv` for the contract.

    `env_fns` must be picklable (for `fork` as well), so defined in an importable module.
    `envs_per_worker` defaults to one worker a usable core; workers are given shares that
    differ by at most one environment. `cpus` pins worker i to `cpus[i % len(cpus)]`; None
    gives workers the affinity that this process has now. `step_timeout` and `setup_timeout`
    are seconds.

    Any failure closes the VecEnv. Raises InputError for arguments or environments that
    cannot be used, EnvWorkerError for an environment that raises, EnvTimeoutError for one
    that takes longer than its limit, and EnvLostError for a process that dies.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        envs_per_worker: int | None = None,
        start_method: StartMethod = "forkserver",
        seed: int = 0,
        n_groups: int = 1,
        action: ActionMode = "none",
        cpus: Sequence[int] | None = None,
        step_timeout: float = 60.0,
        setup_timeout: float = 120.0,
    ) -> None:
        self.n_envs = len(env_fns)
        self.groups = split(self.n_envs, n_groups, "n_groups")
        usable = os.sched_getaffinity(0)
        if envs_per_worker is None:
            self.n_workers = min(self.n_envs, len(usable))
        elif 1 <= envs_per_worker <= self.n_envs:
            self.n_workers = -(-self.n_envs // envs_per_worker)
        else:
            raise InputError(
                f"envs_per_worker must be 1 to n_envs = {self.n_envs}, got {envs_per_worker}"
            )
        self._n_cores = len(set(cpus) if cpus else usable)
        self._step_timeout = step_timeout
        self._seeds = tuple(env_seeds(seed, self.n_envs))
        self._rows = split(self.n_envs, self.n_workers, "n_workers")
        self._workers: list[WorkerLink] = []
        self._control: Control | None = None
        self._arrays: GroupedArrays | None = None
        # For each group: command words with their wake-ups; whom to wait for, and how.
        self._calls: list[list[tuple[memoryview, Callable[[], None]]]] = []
        self._waits: list[list[tuple[WorkerLink, Semaphore, float]]] = []
        self._memory_fd = os.memfd_create("sweeper-envs")
        lifeline, self._lifeline = os.pipe()
        try:
            tasks = [
                WorkerTask(
                    number=number,
                    n_workers=self.n_workers,
                    env_fns=_pickled(env_fns[rows]),
                    rows=rows,
                    n_envs=self.n_envs,
                    seeds=self._seeds[rows],
                    groups=self.groups,
                    action=action,
                    cpus=frozenset([cpus[number % len(cpus)]]) if cpus else frozenset(usable),
                    spin_seconds=SPIN_SECONDS if cpus and self._may_spin(number) else 0.0,
                    directory=os.getcwd(),
                    import_path=tuple(sys.path),
                )
                for number, rows in enumerate(self._rows)
            ]
            for task in tasks:
                worker = WorkerLink(
                    task,
                    start_method,
                    memory=self._memory_fd,
                    lifeline=(lifeline, self._lifeline),
                )
                self._workers.append(worker)
                worker.tell(task)
            self._share(self._made_spaces(time.monotonic() + setup_timeout, setup_timeout), action)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(lifeline)
        self.worker_pids = tuple(worker.pid for worker in self._workers)

    def reset(self) -> Observation:
        """First observations [N, ...]; seeded the first time."""
        arrays = self._open()
        arrays.begin_reset()
        for group in range(len(self.groups)):
            self._command(RESET, group)
        for group in range(len(self.groups)):
            self._wait(group)
        return arrays.finish_reset()

    def step(self, actions: NDArray[Any]) -> VecStep:
        """Step every environment with actions [N, ...] in the action space's dtype."""
        self._open().check_actions(actions)
        for group, rows in enumerate(self.groups):
            self.step_async(actions[rows], group)
        for group in range(len(self.groups)):
            self.step_wait(group)
        return self._open().whole

    def step_async(self, actions: NDArray[Any], group: int = 0) -> None:
        """Send one group's environments off with its actions [n, ...]."""
        self._open().begin_step(actions, group)
        self._command(STEP, group)

    def step_wait(self, group: int = 0) -> VecStep:
        """Wait for the step that `step_async` began."""
        step = self._open().finish_step(group)
        self._wait(group)
        return step

    def close(self) -> None:
        """End every process: asked, after CLOSE_SECONDS terminated, in the end killed.

        An environment that raises in its own close is a RuntimeWarning. Safe to call twice.
        """
        workers, self._workers = self._workers, []
        if self._control is not None:
            for commands, wake in zip(self._control.commands, self._control.wake, strict=True):
                commands[-1] = CLOSE
                wake.post()
        complaints: list[str] = []
        try:
            if self._control is not None:
                _join(workers, CLOSE_SECONDS)
            for worker in workers:
                worker.terminate()
            _join(workers, TERMINATE_SECONDS)
        finally:  # whatever interrupts the patience above
            # Views of the shared memory keep it, and a descriptor, alive.
            self._control = self._arrays = None
            self._calls, self._waits = [], []
            for worker in workers:
                complaints += worker.end()
            for fd in (self._lifeline, self._memory_fd):
                if fd >= 0:
                    os.close(fd)
            self._lifeline = self._memory_fd = -1
        for complaint in complaints:
            warnings.warn(complaint, RuntimeWarning, stacklevel=2)

    def __enter__(self) -> SubprocVecEnv:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _made_spaces(self, deadline: float, setup_timeout: float) -> WorkerSpaces:
        """Wait until every worker has made its environments; their common spaces."""
        found: list[WorkerSpaces] = []
        for worker in self._workers:
            rows = worker.task.rows
            while (message := worker.hear(WATCH_SECONDS)) is None:
                if time.monotonic() > deadline:
                    raise EnvTimeoutError(
                        f"environments {rows.start} to {rows.stop - 1} were not made "
                        f"within setup_timeout = {setup_timeout:g} s"
                    )
            assert isinstance(message, WorkerSpaces)
            found.append(message)
            check_same_spaces(message, found[0], index=rows.start, first_index=0)
        return found[0]

    def _share(self, spaces: WorkerSpaces, action: ActionMode) -> None:
        """Lay out the shared memory, now that the spaces are known, and let workers map it."""
        self.single_observation_space = spaces.observation_space
        self.single_action_space = policy_action_space(spaces.action_space, action)

        def lay_out(carver: Carver) -> tuple[Control, GroupedArrays]:
            control = Control(carver, n_workers=self.n_workers, n_groups=len(self.groups))
            arrays = carve(
                carver, spaces.observation_space, spaces.action_space, n_envs=self.n_envs
            )
            return control, GroupedArrays(arrays, self.groups)

        size = Carver()
        lay_out(size)
        os.ftruncate(self._memory_fd, size.nbytes)
        control, self._arrays = lay_out(Carver(mmap.mmap(self._memory_fd, size.nbytes)))
        control.initialize()
        self._control = control
        for group, rows in enumerate(self.groups):
            serving = [
                number
                for number, theirs in enumerate(self._rows)
                if theirs.start < rows.stop and rows.start < theirs.stop
            ]
            # The first worker is woken last and waited for first: it starts on the core that
            # the learner is about to leave, and wakes it there. The core of a worker that has
            # finished is free to spin on for the others, if each has a core.
            self._calls.append(
                [(control.commands[n], control.wake[n].post) for n in reversed(serving)]
            )
            spin = SPIN_SECONDS if self.n_workers <= self._n_cores else 0.0
            self._waits.append(
                [
                    (self._workers[n], control.done[n][group], spin if n != serving[0] else 0.0)
                    for n in serving
                ]
            )
        for number, worker in enumerate(self._workers):
            worker.cursor = control.cursors[number : number + 1]
            worker.tell("ready")

    def _may_spin(self, number: int) -> bool:
        """Whether a pinned worker has its core to itself while it waits. With a core for each
        worker and none to spare, the learner needs the first one's; with groups stepped apart it
        acts while they work, and needs whichever is free."""
        if self.n_workers < self._n_cores:
            return True
        return self.n_workers == self._n_cores and number > 0 and len(self.groups) == 1

    def _open(self) -> GroupedArrays:
        if self._arrays is None:
            raise EnvError("this SubprocVecEnv is closed")
        return self._arrays

    def _command(self, command: int, group: int) -> None:
        for commands, wake in self._calls[group]:
            commands[group] = command
            wake()

    def _wait(self, group: int) -> None:
        for worker, done, spin_seconds in self._waits[group]:
            if not done.wait_for(WATCH_SECONDS, spin_seconds=spin_seconds):
                self._watch(worker, done)

    def _watch(self, worker: WorkerLink, done: Semaphore) -> None:
        """Wait for a worker that takes long. A failure closes everything and is raised."""
        deadline = time.monotonic() + self._step_timeout - WATCH_SECONDS
        try:
            while not done.wait_for(WATCH_SECONDS):
                worker.hear(0.0)
                if time.monotonic() > deadline:
                    raise EnvTimeoutError(
                        f"{worker.at_work()} took longer than "
                        f"step_timeout = {self._step_timeout:g} s"
                    )
        except EnvTimeoutError:
            worker.kill()
            self.close()
            raise
        except SweeperError:
            self.close()
            raise


def _join(workers: list[WorkerLink], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for worker in workers:
        worker.join(deadline - time.monotonic())


def _pickled(env_fns: Sequence[EnvFn]) -> bytes:
    try:
        return pickle.dumps(list(env_fns))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"environment functions cannot be sent to a worker ({error}): "
            "lambdas and local functions cannot, functions of a module can"
        ) from error
