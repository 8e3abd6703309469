"""A watchdog: another process, which ends a trial that outlives its limits.

A trial looks at its deadline itself, so the watchdog is for one that cannot: its environment
or its learner hangs in C code, perhaps with the interpreter's lock held. One serves all trials
of a process, one after another. It is a bare interpreter (`watchdog_process`) that sleeps
between two commands, so that what is measured does not notice it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = Path(__file__).with_name("watchdog_process.py")


class Watchdog:
    """Ends this process, and what it started, when an armed limit passes.

    With `own_group` this process first becomes the leader of a process group of its own, and
    the whole group is ended, also once this process has died by itself. Without, only this
    process and its descendants are: its group may hold the user's shell or the rest of a pipe.

    `tied_to` is a process whose death ends this one as well: a Ray worker outlives a raylet that
    was killed, and would keep its cores.
    """

    def __init__(self, *, own_group: bool, tied_to: int | None = None) -> None:
        if own_group and os.getpgrp() != os.getpid():
            os.setpgid(0, 0)
        # Isolated and without `site`: a third of the start-up time, and nobody's `.pth` files.
        program = (sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid()))
        tie = () if tied_to is None else (str(tied_to),)
        self._command = (*program, "group" if own_group else "tree", *tie)
        self._process = self._start()
        self.note: Path | None = None
        """Where it leaves the reason, just before it strikes, for those who find the trial
        dead. Set before `arm`."""

    def arm(self, seconds: float, reason: str) -> None:
        """Strike in `seconds` from now unless armed or disarmed again before."""
        self._tell(f"{seconds!r}\t{self.note or ''}\t{reason}")

    def disarm(self) -> None:
        """Forget the limit."""
        self._tell("disarm")

    def close(self) -> None:
        """End the watchdog; safe to call twice."""
        if self._process.poll() is None:
            self._tell("close")
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own program
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # not among those whom it ends, nor by the user's Ctrl-C
        )

    def _tell(self, command: str) -> None:
        line = command.encode() + b"\n"  # shorter than PIPE_BUF: it arrives whole
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except BrokenPipeError:  # somebody has killed it
            self._process.wait()
            self._process = self._start()
            assert self._process.stdin is not None
            self._process.stdin.write(line)
