"""`WorkerLink`: the owner's end of one worker, its process and the connection to it."""

from __future__ import annotations

import signal
from multiprocessing.connection import Pipe
from typing import NoReturn

from sweeper.core.errors import EnvLostError, SweeperError
from sweeper.envs.process import StartMethod, start_worker
from sweeper.envs.worker import WorkerTask


class WorkerLink:
    """Starts a worker for `task` and talks to it about what is rare: its task, the spaces it
    found, errors.

    `cursor[0]`, once set, is the index of the environment that the worker is at.
    """

    def __init__(
        self, task: WorkerTask, method: StartMethod, *, memory: int, lifeline: tuple[int, int]
    ) -> None:
        self.task = task
        self.cursor: memoryview | None = None
        theirs_of_lifeline, ours = lifeline
        self._connection, theirs = Pipe()
        with theirs:
            fds = (theirs.fileno(), memory, theirs_of_lifeline)
            self._process = start_worker(method, fds, ours)

    @property
    def pid(self) -> int:
        """Of the worker's process."""
        return self._process.pid

    def tell(self, message: object) -> None:
        """Send a message. Raises what the worker last said, or EnvLostError, if it is gone."""
        try:
            self._connection.send(message)
        except OSError:
            self.hear(1.0)
            raise

    def hear(self, seconds: float) -> object | None:
        """What the worker says within `seconds`; None if nothing. Raises it if it is an error,
        and EnvLostError if the worker ends without a word."""
        # Before the connection, whose end a process forked by an environment may hold open.
        ended = self._process.join(0)
        if not self._connection.poll(seconds):
            if ended:
                self._raise_lost()
            return None
        try:
            message: object = self._connection.recv()
        except (EOFError, OSError):
            self._raise_lost()
        if isinstance(message, SweeperError):
            try:
                raise message
            finally:
                # Or it holds its traceback, that this frame, and that the error: a cycle,
                # which keeps the shared memory until it is collected.
                del message
        return message

    def at_work(self) -> str:
        """The environment that the worker is at, or all of its own while it makes them."""
        rows = self.task.rows
        if self.cursor is None:
            return f"one of environments {rows.start} to {rows.stop - 1}"
        index = self.cursor[0]
        return f"environment {index} (seed {self.task.seeds[index - rows.start]})"

    def join(self, seconds: float) -> bool:
        """Whether the worker has ended within `seconds`."""
        return self._process.join(seconds)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.signal(signal.SIGKILL)

    def end(self) -> list[str]:
        """Kill the worker if it still runs and let go of it; returns what its environments
        raised in their `close`."""
        self.kill()
        self._process.exit_code()
        self.cursor = None
        with self._connection as connection:
            try:
                while connection.poll(0):
                    message = connection.recv()
                    if isinstance(message, list):
                        return message
            except (EOFError, OSError):
                pass
        return []

    def _raise_lost(self) -> NoReturn:
        if not self.join(1.0):  # it has closed its connection but lives on
            self.kill()
        code = self._process.exit_code()
        how = (
            f"was killed by {signal.Signals(-code).name}"
            if code < 0
            else f"exited with code {code}"
        )
        raise EnvLostError(f"{self.at_work()}: its process {self.pid} {how}")
