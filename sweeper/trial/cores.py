"""Core leases: exclusive CPUs for a trial, freed by the kernel when its process dies.

A lease is an exclusive `flock` on one file a core, in one folder a host. Locks die with
their holder, however it dies, so there is no daemon and nothing to clean up. A core is a
physical core with all of its hyperthreads. Descriptors are close-on-exec, and environment
workers are started by exec, so no child keeps a lock alive.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeper.core.errors import InputError

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
    groups = [tuple(cpus) for cpus in cores.values()]
    quota = _cgroup_quota()
    return groups if quota is None else groups[: max(1, int(quota))]


class CoreLease:
    """CPUs held exclusively until `release` or the death of this process."""

    def __init__(self, cpus: tuple[int, ...], descriptors: tuple[int, ...]) -> None:
        self.cpus = cpus
        self._descriptors = descriptors

    def release(self) -> None:
        """Give the cores back; safe to call twice."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = ()


def lease_cores(n: int, *, wait_seconds: float = 30.0) -> CoreLease:
    """Take `n` cores, all or none.

    Waits up to `wait_seconds` for other holders; raises InputError when the machine has too
    few cores or they stay taken.
    """
    cores = usable_cores()
    if n > len(cores):
        raise InputError(f"parallelism.cores: {n} asked for, {len(cores)} usable on this machine")
    deadline = time.monotonic() + wait_seconds
    while True:
        lease = _try_lease(cores, n)
        if lease is not None:
            return lease
        if time.monotonic() >= deadline:
            raise InputError(
                f"parallelism.cores: {n} of {len(cores)} cores were not free within "
                f"{wait_seconds:g} s; another sweeper on this machine holds them"
            )
        time.sleep(0.05)


def _try_lease(cores: list[tuple[int, ...]], n: int) -> CoreLease | None:
    folder = Path(os.environ.get(LEASES) or Path(tempfile.gettempdir()) / "sweeper-cores")
    folder.mkdir(mode=0o1777, parents=True, exist_ok=True)
    held: list[int] = []
    cpus: list[int] = []
    with _host_lock(folder):
        for core in cores:
            if len(held) == n:
                break
            descriptor = _open(folder / f"core-{core[0]}")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            held.append(descriptor)
            cpus.extend(core)
        if len(held) < n:
            for descriptor in held:
                os.close(descriptor)
            return None
    return CoreLease(tuple(cpus), tuple(held))


@contextmanager
def _host_lock(folder: Path) -> Iterator[None]:
    """One taker at a time, so that two never hold half of what each needs."""
    descriptor = _open(folder / "lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    # World-writable, so that users of one machine share its cores; O_CLOEXEC is Python's default.
    # Files are never removed: a lock on an unlinked file would exclude nobody.
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


def _cgroup_quota() -> float | None:
    """CPUs that the cgroup's quota allows; None without one (v2, then v1)."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        v1 = Path("/sys/fs/cgroup/cpu")
        limit = int((v1 / "cpu.cfs_quota_us").read_text())
        return None if limit < 0 else limit / int((v1 / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
