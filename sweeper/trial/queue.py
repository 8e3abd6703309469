"""The queue of the studies that share this machine's cores.

A study that is launched here has a ticket: a file beside the core leases, locked for as long as
its launcher lives, that says how many cores it has and how many it would have if it could. A
study begins a run only where it leaves those ahead of it what they want, and so they get the
cores in the order of their `priority`, then of their coming, with no daemon to decide it. Nobody
is put out: what runs, ends first. What one study cannot use (it has enough, or has nothing more
to begin), the next may.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from sweeper.core.clock import utc_now
from sweeper.trial.cores import host_lock, lease_folder, open_shared, usable_cores

PREFIX = "study-"
MOST_BYTES = 4096
HEARTBEAT_SECONDS = 2.0
SILENT_SECONDS = 30.0
"""A launcher that hangs, or was stopped, holds up no other for longer; what its runs have, they
keep."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A study in the queue."""

    study: str
    priority: int
    arrived_ns: int
    """Of the machine's monotonic clock."""
    since: str
    """When it came, UTC; for people."""
    pid: int
    """Of its launcher."""
    cores: int
    """Cores that its runs have, or are about to take."""
    wanted: int
    """Cores that it would have if it could, those it has among them; 0 when it begins no more."""
    heard_ns: int
    """When its launcher last said so, of the same clock."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """What is lower comes first."""
        return -self.priority, self.arrived_ns, self.pid


def ahead_of(mine: Ticket, tickets: Sequence[Ticket]) -> list[Ticket]:
    """Those that come first, as far as they are heard of."""
    oldest = time.monotonic_ns() - SILENT_SECONDS * 1e9
    return [t for t in tickets if t.rank < mine.rank and t.heard_ns > oldest]


def in_the_way(ahead: Sequence[Ticket], *, cores: int, usable: int) -> Ticket | None:
    """The first of those ahead that a study must wait for before it has `cores` in all; None
    if what they want leaves it so many of the `usable`."""
    left = usable
    for ticket in ahead:
        left -= max(ticket.cores, ticket.wanted)
        if left < cores:
            return ticket
    return None


def queue() -> list[Ticket]:
    """The studies that are launched on this machine, whoever's they are, the first first."""
    folder = lease_folder()
    with host_lock(folder):
        return _living(folder)


class Place:
    """This launcher's place in the queue, until `close` or the death of this process."""

    def __init__(self, study: str, *, priority: int, most: int) -> None:
        """Line up behind all that are of the same priority, or of a higher one, as a study that
        takes `most` cores at once."""
        self.most = most
        self._folder = lease_folder()
        self._usable = len(usable_cores())
        with host_lock(self._folder):
            # Living on this machine, so that one clock orders them all.
            now, pid = time.monotonic_ns(), os.getpid()
            self._path = self._folder / f"{PREFIX}{pid}-{now}"
            self._descriptor = open_shared(self._path)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.ticket = Ticket(
                study, priority, now, f"{utc_now():%Y-%m-%d %H:%M:%S}", pid, 0, most, now
            )
            self._write()

    def tell(self, *, cores: int, wanted: int) -> None:
        """Say to those behind what this study has and wants by now; to be called every few
        seconds, for one that is silent is not waited for."""
        now, before = time.monotonic_ns(), self.ticket
        has_changed = (cores, wanted) != (before.cores, before.wanted)
        if has_changed or now - before.heard_ns > HEARTBEAT_SECONDS * 1e9:
            self.ticket = replace(before, cores=cores, wanted=wanted, heard_ns=now)
            with host_lock(self._folder):
                self._write()

    def waits_for(self, cores: int) -> Ticket | None:
        """The study that must be waited for before this one has `cores` in all, if any."""
        with host_lock(self._folder):
            ahead = ahead_of(self.ticket, _living(self._folder))
        return in_the_way(ahead, cores=cores, usable=self._usable)

    def close(self) -> None:
        """Leave the queue; safe to call twice."""
        if self._descriptor >= 0:
            with host_lock(self._folder):
                self._path.unlink(missing_ok=True)
                os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _write(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(asdict(self.ticket)).encode(), 0)


def _living(folder: Path) -> list[Ticket]:
    """The tickets that somebody holds; the others are taken away."""
    tickets: list[Ticket] = []
    for path in folder.glob(f"{PREFIX}*"):
        with suppress(OSError, ValueError, TypeError), _reading(path) as (descriptor, is_held):
            if is_held:
                tickets.append(Ticket(**json.loads(os.pread(descriptor, MOST_BYTES, 0))))
            else:
                path.unlink()
    return sorted(tickets, key=lambda ticket: ticket.rank)


@contextmanager
def _reading(path: Path) -> Iterator[tuple[int, bool]]:
    """A ticket's descriptor, and whether its launcher lives."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield descriptor, True
        else:
            yield descriptor, False
    finally:
        os.close(descriptor)
