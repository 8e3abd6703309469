"""A process that outlives the launcher just long enough to end what it left behind.

`python -m sweeper.study.reaper PID` sleeps until its standard input ends, which it does when
PID dies, however it dies. A local Ray ties most of its processes to the launcher's life, but its
agents linger for a minute or more, and workers that are just starting for seconds. All of
them, and what they started, write to log files of the Ray session, whose name ends in the
pid of the launcher: that is how they are known.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import psutil

GRACE_SECONDS = 1.0


def start_reaper() -> subprocess.Popen[bytes]:
    """Watch over this process. Close the `stdin` of what is returned after an orderly end."""
    return subprocess.Popen(  # noqa: S603 - our own module and pid
        [sys.executable, "-m", "sweeper.study.reaper", str(os.getpid())],
        stdin=subprocess.PIPE,
        start_new_session=True,  # not in the terminal's group: it must survive its Ctrl-C
    )


def left_behind(pid: int) -> Iterator[psutil.Process]:
    """Live processes of the local Ray session that process `pid` started, without itself: after
    an orderly end it lives on, with the session's logs still open."""
    in_session = re.compile(rf"/session_[\d_-]+_{pid}/")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # ended meanwhile, or another user's
            if process.pid != pid and any(
                in_session.search(file.path) for file in process.open_files()
            ):
                yield process


def _reap(pid: int) -> None:
    sys.stdin.read()
    while processes := list(left_behind(pid)):  # again, for what they started meanwhile
        _, alive = psutil.wait_procs(processes, timeout=GRACE_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):  # compares start times: never another's
                process.kill()


if __name__ == "__main__":
    _reap(int(sys.argv[1]))
