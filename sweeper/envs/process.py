"""Starting, watching and ending environment processes, by each start method.

Not `multiprocessing`: its children import the program's `__main__` again (a user's script
without a guard, a CLI that loads torch, Ray's worker program), cannot be started from
daemonic processes, share one fork server whose CPU affinity and thread settings are those
of whoever came first, and are joined without limit at exit.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Literal

from sweeper.core.errors import EnvError

StartMethod = Literal["forkserver", "spawn", "fork"]

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
"""Set for workers: environments are the parallelism; a thread pool in each would fight."""


class WorkerProcess:
    """One environment process, whoever its parent is.

    `reap(pid)` waits for it and returns the exit code as `subprocess` has it (-9: SIGKILL).
    """

    def __init__(self, pid: int, reap: Callable[[int], int]) -> None:
        self.pid = pid
        self._reap = reap
        # The pid cannot pass to another process before it is reaped, which only we do.
        self._pidfd = os.pidfd_open(pid)
        self._exit_code: int | None = None

    def join(self, seconds: float) -> bool:
        """Whether it has ended within `seconds`."""
        if self._exit_code is not None:
            return True
        return bool(select.select([self._pidfd], [], [], max(0.0, seconds))[0])

    def exit_code(self) -> int:
        """Its exit code; waits for its end, and lets the kernel forget it."""
        if self._exit_code is None:
            self._exit_code = self._reap(self.pid)
            os.close(self._pidfd)
        return self._exit_code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens once it has ended."""
        if self._exit_code is None and not self.join(0):
            signal.pidfd_send_signal(self._pidfd, number)


def start_worker(method: StartMethod, fds: tuple[int, int, int], owner_fd: int) -> WorkerProcess:
    """Start a process that runs `sweeper.envs.worker.run(*fds)`.

    `owner_fd`, the owner's end of the lifeline, is closed in a forked child.
    """
    if method == "forkserver":
        server = _ForkServer.running()
        return WorkerProcess(server.fork(fds), server.reap)
    if method == "spawn":
        child = start_python("sweeper.envs.worker", "run", fds)
        return WorkerProcess(child.pid, lambda _: child.wait())
    sys.stdout.flush()  # or the child prints it as well
    pid = os.fork()
    if pid == 0:
        from sweeper.envs import worker  # noqa: PLC0415 - spares owners the import

        os.close(owner_fd)
        worker.run(*fds)
    return WorkerProcess(pid, _wait_for_child)


def _wait_for_child(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def start_python(module: str, function: str, fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """A fresh interpreter that calls `module.function(*fds)` with this one's import path."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from {module} import {function}; {function}(*{fds!r})"
    )
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        pass_fds=fds,
        stdin=subprocess.DEVNULL,
        env=os.environ | ONE_THREAD,
    )


class _ForkServer:
    """This process's end of a fork server (`sweeper.envs.forkserver`).

    One serves all VecEnvs of a process, one after another; it ends with that process,
    whose death closes the socket.
    """

    _running: _ForkServer | None = None
    _starting = threading.Lock()

    @classmethod
    def running(cls) -> _ForkServer:
        """The server of this process, started when there is none or it has died."""
        with cls._starting:
            server = cls._running
            if server is None or server._owner != os.getpid() or server._process.poll() is not None:
                server = cls._running = cls()
            return server

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = start_python("sweeper.envs.forkserver", "main", (theirs.fileno(),))
        atexit.register(self._stop)

    def fork(self, fds: tuple[int, ...]) -> int:
        """Fork a worker that is given `fds`; returns its pid."""
        with self._lock:
            try:
                socket.send_fds(self._socket, [b"fork"], list(fds))
            except OSError as error:
                raise EnvError(f"the fork server ended: {error}") from error
            return self._answer()

    def reap(self, pid: int) -> int:
        """Wait for a worker's end; returns its exit code."""
        with self._lock:
            try:
                self._socket.send(struct.pack("<q", pid))
                return self._answer()
            except (OSError, EnvError):
                return 1  # the server died first, and init reaps its children

    def _answer(self) -> int:
        answer = self._socket.recv(8)
        if not answer:
            raise EnvError(f"the fork server ended with exit code {self._process.wait()}")
        return int(struct.unpack("<q", answer)[0])

    def _stop(self) -> None:
        self._socket.close()
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
