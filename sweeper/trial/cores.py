"""Core leases: exclusive CPUs for a trial, freed by the kernel when its process dies.

A lease is an exclusive `flock` on one file a core, in one folder a host. Locks die with
their holder, however it dies, so there is no daemon and nothing to clean up. A core is a
physical core with all of its hyperthreads. Descriptors are close-on-exec, and environment
workers are started by exec, so no child keeps a lock alive. A file's text says who holds it,
for people; only the lock counts.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from sweeper.core.clock import utc_now
from sweeper.core.errors import InputError
from sweeper.trial.cgroup import cpu_quota

LEASES = "SWEEPER_LEASES"
"""Environment variable: the folder of lease files, for containers that share one."""


def usable_cpus() -> tuple[int, ...]:
    """CPU numbers that this process may run on: its affinity mask, where there is one."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def usable_cores() -> list[tuple[int, ...]]:
    """Physical cores this process may use, each with its CPUs, within the cgroup's quota."""
    cores: dict[tuple[int, ...], list[int]] = {}
    for cpu in usable_cpus():
        cores.setdefault(_siblings(cpu), []).append(cpu)
    return within_quota([tuple(cpus) for cpus in cores.values()], cpu_quota())


def within_quota(cores: Sequence[tuple[int, ...]], quota: float | None) -> list[tuple[int, ...]]:
    """As many cores as the quota pays for, with as many hyperthreads each as are paid for then:
    using all of them at once never exceeds it, which the kernel would punish by stopping
    everything for a part of each period.
    """
    if quota is None:
        return list(cores)
    kept = cores[: max(1, int(quota))]
    threads = max(1, int(quota) // len(kept))
    return [cpus[:threads] for cpus in kept]


class CoreLease:
    """CPUs held exclusively until `release` or the death of this process.

    `cpus` names one hyperthread of each core before the second of any, so that whoever is
    given the first n of them has n cores if there are so many.
    """

    def __init__(self, cores: Sequence[tuple[int, ...]], descriptors: tuple[int, ...]) -> None:
        ranks = zip_longest(*cores)
        self.cpus = tuple(cpu for rank in ranks for cpu in rank if cpu is not None)
        self._descriptors = descriptors

    def release(self) -> None:
        """Give the cores back; safe to call twice."""
        for descriptor in self._descriptors:
            os.ftruncate(descriptor, 0)
            # Closing would do, were it not for a forked child that still has the file open.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
        self._descriptors = ()


@dataclass(frozen=True, slots=True)
class CoresTaken:
    """Why a lease could not be had now."""

    wanted: int
    usable: int
    holders: tuple[str, ...]

    def __str__(self) -> str:
        free = self.usable - len(self.holders)
        return (
            f"parallelism.cores: {self.wanted} wanted, {free} of {self.usable} cores free; "
            + ", ".join(self.holders)
        )


def try_lease(n: int) -> CoreLease | CoresTaken:
    """Take `n` cores now, all or none. Raises InputError when there are not so many."""
    cores = usable_cores()
    if not 1 <= n <= len(cores):
        raise InputError(f"parallelism.cores: {n} asked for, {len(cores)} usable on this machine")
    folder = lease_folder()
    held: dict[tuple[int, ...], int] = {}
    holders: list[str] = []
    with host_lock(folder):
        for core in cores:
            if len(held) == n:
                break
            descriptor = open_shared(folder / f"core-{core[0]}")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = os.pread(descriptor, 200, 0).decode(errors="replace")
                holders.append(f"core {core[0]} is held by {who or 'another sweeper'}")
                os.close(descriptor)
                continue
            held[core] = descriptor
        if len(held) < n:
            for descriptor in held.values():
                os.close(descriptor)
            return CoresTaken(n, len(cores), tuple(holders))
        me = f"process {os.getpid()} on {socket.gethostname()} since {utc_now():%H:%M:%S} UTC"
        for descriptor in held.values():
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, me.encode(), 0)
    return CoreLease(list(held), tuple(held.values()))


def lease_cores(n: int, *, wait_seconds: float = 0.0) -> CoreLease:
    """Take `n` cores, all or none, within `wait_seconds`.

    Raises InputError when the machine has too few cores, or says who holds them.
    """
    deadline = time.monotonic() + wait_seconds
    while isinstance(lease := try_lease(n), CoresTaken):
        if time.monotonic() >= deadline:
            raise InputError(str(lease))
        time.sleep(0.05)
    return lease


def lease_folder() -> Path:
    """Where this machine's leases lie. Its users share its cores, and so this folder and the
    files in it."""
    folder = Path(os.environ.get(LEASES) or Path(tempfile.gettempdir()) / "sweeper-cores")
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(0o1777)
    return folder


@contextmanager
def host_lock(folder: Path) -> Iterator[None]:
    """One taker at a time, so that two never hold half of what each needs."""
    descriptor = open_shared(folder / "lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def open_shared(path: Path) -> int:
    """Open a file of that folder, made if there is none."""
    # A core's file is never removed: a lock on an unlinked one would exclude nobody. O_CREAT
    # only where there is none: Linux refuses it for another user's in a folder like /tmp.
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR)
    old = os.umask(0)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    finally:
        os.umask(old)


def _siblings(cpu: int) -> tuple[int, ...]:
    """Hyperthreads of the physical core of `cpu`."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        text = path.read_text().strip()
    except OSError:  # not Linux, or a container without sysfs
        return (cpu,)
    numbers: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        numbers.extend(range(int(low), int(high or low) + 1))
    return tuple(numbers)
