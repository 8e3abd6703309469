"""What a trial's processes cost: CPU seconds, memory, involuntary switches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """A reading over a tree of processes; differences of two readings cover what is between."""

    cpu_seconds: float
    """User and system time."""
    rss_bytes: int
    involuntary_switches: int


class UsageMeter:
    """Reads this process and the environment workers it was told of.

    A worker that has ended counts with its last reading.
    """

    def __init__(self, worker_pids: Iterable[int]) -> None:
        self._processes = [psutil.Process()]
        for pid in worker_pids:
            try:
                self._processes.append(psutil.Process(pid))
            except psutil.NoSuchProcess:  # died at once; the VecEnv reports it
                continue
        self._last = [Usage(0.0, 0, 0)] * len(self._processes)
        self.peak_rss_bytes = 0

    def read(self) -> Usage:
        """The present totals over all processes."""
        for i, process in enumerate(self._processes):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    self._last[i] = Usage(
                        times.user + times.system,
                        process.memory_info().rss,
                        process.num_ctx_switches().involuntary,
                    )
            except psutil.Error:
                self._last[i] = self._last[i]._replace(rss_bytes=0)
        total = Usage(
            sum(u.cpu_seconds for u in self._last),
            sum(u.rss_bytes for u in self._last),
            sum(u.involuntary_switches for u in self._last),
        )
        self.peak_rss_bytes = max(self.peak_rss_bytes, total.rss_bytes)
        return total
