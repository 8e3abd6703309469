"""A process that has numpy and gymnasium loaded and no threads: forking it is fast and safe.

It answers one request at a time, in 8 bytes: descriptors ask for a fork (answered by the
pid), a pid for its exit code. End-of-file is the end.

What environments start (simulators, servers) may outlive the worker that it was started in. It is
this process's then, wherever it went, and is ended with the last worker.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import struct

from sweeper.envs import worker

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main(fd: int) -> None:
    """Serve requests on the socket `fd` until its other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Keep the collector of every child from touching, and so copying, what is shared.
    gc.collect()
    gc.freeze()
    _adopt_orphans()
    workers: set[int] = set()
    with socket.socket(fileno=fd) as requests:
        while True:
            request, fds, _, _ = socket.recv_fds(requests, 8, 3)
            if not request:
                _end_children()
                return
            if fds:
                answer = os.fork()
                if answer == 0:
                    requests.close()
                    worker.run(*fds)
                workers.add(answer)
                for each in fds:
                    os.close(each)
            else:
                (pid,) = struct.unpack("<q", request)
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                workers.discard(pid)
                if not workers:
                    _end_children()
            requests.send(struct.pack("<q", answer))


def _adopt_orphans() -> None:
    """Have the kernel give this process whatever its descendants leave behind, not init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_children() -> None:
    """Kill what there is, and what is orphaned by that, until there is nothing."""
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)  # a child is not reaped by anyone else: still the same
            os.waitpid(pid, 0)


def _children() -> list[int]:
    me, found = os.getpid(), []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    # The name before it, in parentheses, may hold anything.
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:  # it ended meanwhile
                continue
            if parent == me:
                found.append(int(entry))
    return found
