"""A process that has numpy and gymnasium loaded and no threads: forking it is fast and safe.

It answers one request at a time, in 8 bytes: descriptors ask for a fork (answered by the
pid), a pid for its exit code. End-of-file is the end.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct

from sweeper.envs import worker


def main(fd: int) -> None:
    """Serve requests on the socket `fd` until its other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Keep the collector of every child from touching, and so copying, what is shared.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=fd) as requests:
        while True:
            request, fds, _, _ = socket.recv_fds(requests, 8, 3)
            if not request:
                return
            if fds:
                answer = os.fork()
                if answer == 0:
                    requests.close()
                    worker.run(*fds)
                for each in fds:
                    os.close(each)
            else:
                (pid,) = struct.unpack("<q", request)
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            requests.send(struct.pack("<q", answer))
