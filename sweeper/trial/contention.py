"""What else ran on a trial's cores: the kernel's account of them, less the trial's own time.

    foreign = elapsed x CPUs - idle - own

`idle` is what /proc/stat says the CPUs idled; the kernel measures it by the clock, while it
samples the other figures of that file at its ticks and misses what runs between them. What
the hypervisor took from a CPU that had work ("steal") was not idle, and so it counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from typing import NamedTuple

CONTENDED_SHARE = 0.05
"""Of the leased core-time; more, and a run's speed is not to be trusted. Ray and the launcher
take up to 0.03 themselves where a study leases every core of a small machine."""
SHORTEST_SECONDS = 5.0
"""/proc/stat counts in hundredths of a second: over less, rounding alone is half a percent."""


class CpuAccount(NamedTuple):
    """A reading of some CPUs; what lies between two of them is what they did."""

    at: float
    """Seconds of the clock that the kernel accounts by."""
    idle_seconds: float
    """Over all of the CPUs."""


def read_account(cpus: Collection[int]) -> CpuAccount | None:
    """The present account of `cpus`; None where the system keeps none."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            text = file.read()
    except OSError:  # not Linux
        return None
    return CpuAccount(time.monotonic(), idle_seconds(text, cpus))


def idle_seconds(stat: str, cpus: Collection[int]) -> float:
    """Seconds that `cpus` have idled, waiting for disks included, by the text of /proc/stat."""
    tick = 1.0 / os.sysconf("SC_CLK_TCK")
    names = {f"cpu{cpu}" for cpu in cpus}
    rows = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    return sum((int(row[4]) + int(row[5])) * tick for row in rows if row[0] in names)


def foreign_share(
    before: CpuAccount | None,
    after: CpuAccount | None,
    *,
    own_seconds: float,
    n_cpus: int,
    cores: int,
) -> float | None:
    """Share of the core-time between two readings that others took, stolen time included.

    own_seconds: CPU time of the trial's processes in between, all of it on those CPUs. None
    without readings, or when they lie less than SHORTEST_SECONDS apart.
    """
    if before is None or after is None or not n_cpus:
        return None
    elapsed = after.at - before.at
    if elapsed < SHORTEST_SECONDS:
        return None
    busy = elapsed * n_cpus - (after.idle_seconds - before.idle_seconds)
    return max(0.0, busy - own_seconds) / (elapsed * cores)
