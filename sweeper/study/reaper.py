"""What launchers leave behind on this machine, and its end.

A launcher that starts a Ray of its own marks all that comes of it: an environment variable that
every process inherits, and a file in the folder of Ray's session. The mark says which launcher it
was, so that whatever bears the mark of a dead one is nobody's.

`python -m sweeper.study.reaper MARK` outlives the launcher just long enough to do so: it sleeps
until its standard input ends, which it does when the launcher dies, however it dies. A local Ray
ties most of its processes to the launcher's life, but its agents linger for a minute or more, and
workers that are just starting for seconds. `sweeper reap` does the same where the reaper died as
well, or the whole machine.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

import psutil

from sweeper.trial.alive import is_alive, start_of

VARIABLE = "SWEEPER_LAUNCHER"
FILE = "sweeper-launcher"
GRACE_SECONDS = 1.0


class Mark(NamedTuple):
    """Which launcher something comes of; as text, `pid@start@namespace`."""

    pid: int
    started_at: datetime
    namespace: int
    """Of pids: a container's are not those of its host."""

    @classmethod
    def mine(cls) -> Self:
        """This process as a launcher."""
        started_at = start_of(os.getpid())
        assert started_at is not None
        return cls(os.getpid(), started_at, _namespace())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The mark that a text is, if it is one."""
        try:
            pid, seconds, namespace = text.split("@")
            return cls(int(pid), datetime.fromtimestamp(float(seconds), UTC), int(namespace))
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.pid}@{self.started_at.timestamp():.2f}@{self.namespace}"

    @property
    def is_dead(self) -> bool:
        """Whether that launcher is known to be no more."""
        return self.namespace == _namespace() and not is_alive(self.pid, self.started_at)


@contextlib.contextmanager
def marking(mark: Mark) -> Iterator[None]:
    """Mark all processes that are started meanwhile, and all that they start."""
    os.environ[VARIABLE] = str(mark)
    try:
        yield
    finally:
        del os.environ[VARIABLE]  # what this process starts otherwise may outlive it


def start_reaper(mark: Mark) -> subprocess.Popen[bytes]:
    """Watch over this process. Close the `stdin` of what is returned after an orderly end."""
    return subprocess.Popen(  # noqa: S603 - our own module and mark
        [sys.executable, "-m", "sweeper.study.reaper", str(mark)],
        stdin=subprocess.PIPE,
        start_new_session=True,  # not in the terminal's group: it must survive its Ctrl-C
    )


def processes() -> Iterator[tuple[psutil.Process, Mark]]:
    """Live processes of this user that a launcher started, however indirectly."""
    # Not process_iter: it keeps what it once found under a pid, and when that has ended and another
    # process has its pid, no signal is sent.
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error):  # ended meanwhile, or another user's
            process = psutil.Process(pid)
            if process.uids().real == os.getuid():
                mark = Mark.parse(process.environ().get(VARIABLE, ""))
                if mark is not None:
                    yield process, mark


def sessions() -> Iterator[tuple[Path, Mark]]:
    """Folders of this user's Ray sessions (logs, sockets, spilled objects) of launchers."""
    root = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    for folder in (Path(root) / "ray").glob("session_*"):
        with contextlib.suppress(OSError):  # none of ours, or another user's
            file = folder / FILE
            if not folder.is_symlink() and file.stat().st_uid == os.getuid():
                mark = Mark.parse(file.read_text())
                if mark is not None:
                    yield folder, mark


def end(find: Callable[[], Sequence[psutil.Process]]) -> None:
    """End what `find` finds, until it finds nothing: again for what it started meanwhile."""
    while found := find():
        _, alive = psutil.wait_procs(found, timeout=GRACE_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):  # compares start times: never another's
                process.kill()


def _namespace() -> int:
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0  # not Linux


def _reap(mark: str) -> None:
    sys.stdin.read()
    end(lambda: [process for process, theirs in processes() if str(theirs) == mark])


if __name__ == "__main__":
    _reap(sys.argv[1])
