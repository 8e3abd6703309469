"""What this machine looks like to the product: findings, each with a verdict and a remedy."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import psutil

from sweeper.core.errors import InputError
from sweeper.store.connect import open_read_only, open_writer, schema_revision
from sweeper.store.schema import REVISION
from sweeper.study.cluster import find_cluster
from sweeper.trial.cgroup import cpu_quota, memory_limit
from sweeper.trial.contention import CONTENDED_SHARE, read_account
from sweeper.trial.cores import CoresTaken, try_lease, usable_cores, usable_cpus
from sweeper.trial.gpu import find_gpus
from sweeper.trial.pinning import CAN_PIN

Verdict = Literal["ok", "note", "broken"]
MIB, GIB = 2**20, 2**30
LEAST_MEMORY = 1 * GIB
"""A launcher, Ray and one trial, with torch in two of them."""
LEAST_SHARED_MEMORY = 256 * MIB
LEAST_DESCRIPTORS = 1024
WATCH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's."""

    subject: str
    verdict: Verdict
    """ok; note: works, with a reservation; broken: something will fail."""
    finding: str
    remedy: str | None = None


def look_around(db: str) -> Iterator[Finding]:
    """Everything, one after another, the quick things first."""
    yield _cores()
    yield _pinning()
    yield _leases()
    yield _neighbors()
    yield _memory()
    yield _shared_memory()
    yield _descriptors()
    yield _database(db)
    yield _ray()
    yield from _torch()


def _cores() -> Finding:
    there_are, mask, quota = os.cpu_count() or 1, usable_cpus(), cpu_quota()
    cores = usable_cores()
    limit = "no quota" if quota is None else f"a cgroup quota of {quota:g} CPUs"
    words = (
        f"{len(cores)} usable; of the machine's {there_are} CPUs the affinity mask allows "
        f"{len(mask)}, under {limit}"
    )
    if quota is not None and quota < 1.0:
        return Finding("cores", "note", words, "give the container at least one whole CPU")
    return Finding("cores", "ok", words)


def _pinning() -> Finding:
    if CAN_PIN:
        return Finding("pinning", "ok", "trials are pinned to the cores that they lease")
    return Finding(
        "pinning",
        "note",
        f"{platform.system()} has no CPU affinity: trials share all cores",
        "compare speeds on Linux",
    )


def _leases() -> Finding:
    try:
        lease = try_lease(len(usable_cores()))
    except OSError as error:
        return Finding(
            "leases",
            "broken",
            f"the lease files cannot be opened: {error}",
            "make that folder writable for all its users, or name another in SWEEPER_LEASES",
        )
    if isinstance(lease, CoresTaken):
        return Finding("leases", "note", "; ".join(lease.holders), "wait, or use --no-wait")
    lease.release()
    return Finding("leases", "ok", "no other sweeper holds a core")


def _neighbors() -> Finding:
    cpus = usable_cpus()
    before = read_account(cpus)
    if before is None:
        return Finding("neighbors", "note", "this system does not tell what runs on a core")
    time.sleep(WATCH_SECONDS)
    after = read_account(cpus)
    assert after is not None
    busy = 1.0 - (after.idle_seconds - before.idle_seconds) / ((after.at - before.at) * len(cpus))
    words = f"others take {max(0.0, busy):.0%} of the usable CPUs now"
    if busy <= CONTENDED_SHARE:
        return Finding("neighbors", "ok", words)
    return Finding("neighbors", "note", words, "end them, or runs will be marked as contended")


def _memory() -> Finding:
    machine, limit = psutil.virtual_memory(), memory_limit()
    total = min(machine.total, limit or machine.total)
    free = min(machine.available, total)
    words = f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"
    if limit is not None and limit < machine.total:
        words += ", by the cgroup's limit"
    if free < LEAST_MEMORY:
        return Finding("memory", "broken", words, "1 GiB is the least that a study needs")
    return Finding("memory", "ok", words)


def _shared_memory() -> Finding:
    folder = Path("/dev/shm")  # noqa: S108 - what Ray uses
    if not folder.is_dir():
        return Finding("shared memory", "ok", "no /dev/shm on this system; Ray uses files")
    size = shutil.disk_usage(folder)
    words = f"{size.free / MIB:,.0f} of {size.total / MIB:,.0f} MiB of /dev/shm free"
    if size.free < LEAST_SHARED_MEMORY:
        remedy = "start the container with --shm-size=1g; Ray falls back on slow files meanwhile"
        return Finding("shared memory", "note", words, remedy)
    return Finding("shared memory", "ok", words)


def _descriptors() -> Finding:
    import resource  # noqa: PLC0415 - not on every system

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    words = f"{soft} open files a process ({hard} at most)"
    if soft < LEAST_DESCRIPTORS:
        return Finding("descriptors", "broken", words, f"ulimit -n {min(hard, 65_536)}")
    return Finding("descriptors", "ok", words)


def _database(db: str) -> Finding:
    try:
        engine = open_read_only(db)
    except InputError as error:
        return _missing_database(db, error)
    try:
        with engine.connect() as connection:
            revision = schema_revision(connection)
    except InputError as error:
        return Finding("database", "broken", str(error), "name another with --db")
    finally:
        engine.dispose()
    words = f"{engine.url.render_as_string()}: schema {revision or 'none yet'}"
    if revision is not None and revision != REVISION:
        remedy = "`sweeper db upgrade`" if revision < REVISION else "install a newer sweeper"
        return Finding("database", "broken", f"{words}, {REVISION} is needed", remedy)
    return Finding("database", "ok", words)


def _missing_database(db: str, error: InputError) -> Finding:
    """A database that cannot be read: perhaps only because no launch has made it yet."""
    path = Path(db.removeprefix("sqlite:///"))
    if db.startswith("sqlite:///") and not path.exists():
        try:
            open_writer(db).dispose()
        except InputError as reason:
            error = reason
        else:
            return Finding("database", "ok", f"{db}: the first launch makes it")
    return Finding("database", "broken", str(error), "name another with --db")


def _ray() -> Finding:
    try:
        words = f"Ray {version('ray')}"
        cluster = find_cluster("auto")
    except PackageNotFoundError:
        return Finding("ray", "broken", "Ray is not installed", "pip install ray")
    except InputError as error:
        return Finding("ray", "broken", str(error), "unset RAY_ADDRESS, or start that cluster")
    where = f"joins {cluster}" if cluster else "each launch starts one on this machine"
    return Finding("ray", "ok", f"{words}; {where}")


def _torch() -> Iterator[Finding]:
    try:
        import torch  # noqa: PLC0415 - takes a second, and may be what is broken
        from threadpoolctl import threadpool_info  # noqa: PLC0415 - knows what torch has loaded
    except (ImportError, OSError) as error:
        yield Finding("torch", "broken", f"cannot be imported: {error}", "pip install torch")
        return
    pools = ", ".join(
        sorted({f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()})
    )
    yield Finding(
        "torch",
        "ok",
        f"{torch.__version__}; threads unless a trial says otherwise (it does: torch_threads): "
        f"torch {torch.get_num_threads()}, {pools}",
    )
    yield _gpu(torch.cuda.device_count())


def _gpu(seen_by_torch: int) -> Finding:
    gpus = find_gpus()
    if gpus is not None:
        reading = gpus.read()
        busy = "" if reading.utilization is None else f", {reading.utilization:.0%} busy"
        full = f"{reading.memory_bytes / GIB:.1f} of {gpus.memory_bytes / GIB:.1f} GiB in use"
        words = f"{', '.join(gpus.names)}: {full}{busy}; learners run on the CPU all the same"
        return Finding("gpu", "ok", words)
    if seen_by_torch:
        words = f"torch sees {seen_by_torch}, but nothing tells how busy it is"
        return Finding("gpu", "note", words, "pip install 'sweeper[gpu]'")
    return Finding("gpu", "ok", "none, and none is needed")
