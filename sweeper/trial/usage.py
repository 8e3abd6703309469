"""What a trial's processes cost: CPU and GPU, memory, involuntary switches, by whom disturbed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from sweeper.trial.contention import CpuAccount, foreign_share, read_account
from sweeper.trial.gpu import GpuMeter, find_gpus


class Usage(NamedTuple):
    """A reading over a tree of processes; differences of two readings cover what is between."""

    cpu_seconds: float
    """User and system time of all."""
    learner_cpu_seconds: float
    """Of this process alone."""
    rss_bytes: int


class Cost(NamedTuple):
    """What training cost, from `begin` to `end`."""

    cpu_seconds: float
    worker_cpu_seconds: float
    """Of all processes but the learner's."""
    involuntary_switches: int
    foreign_cpu_share: float | None
    gpu_utilization: float | None
    """None without a GPU, as below."""
    gpu_memory_bytes: int | None
    """Most that was in use."""


class UsageMeter:
    """Reads this process and all that it has started. A process that has ended counts with its
    last reading. `begin` and `end` frame the training and are off its budget; `read` is not.
    """

    def __init__(self, cpus: Sequence[int], *, cores: int) -> None:
        self._cpus = cpus
        self._cores = cores
        self._processes: dict[int, psutil.Process] = {}
        self._cpu_seconds: dict[int, float] = {}
        self._at_begin = Usage(0.0, 0.0, 0)
        self._switches = 0
        self._account: CpuAccount | None = None
        gpus = find_gpus()
        self._gpu = None if gpus is None else GpuMeter(gpus.read)
        self.peak_rss_bytes = 0

    def begin(self) -> None:
        """Training begins now."""
        self._look_around()
        self._switches = self._involuntary_switches()
        self._at_begin = self.read()
        self._account = read_account(self._cpus)

    def end(self) -> Cost:
        """Training has ended."""
        account = read_account(self._cpus)
        self._look_around()
        usage = self.read()
        if self._gpu is not None:
            self._gpu.look(is_last=True)
        cpu = usage.cpu_seconds - self._at_begin.cpu_seconds
        learner = usage.learner_cpu_seconds - self._at_begin.learner_cpu_seconds
        return Cost(
            cpu_seconds=cpu,
            worker_cpu_seconds=cpu - learner,
            involuntary_switches=max(0, self._involuntary_switches() - self._switches),
            foreign_cpu_share=foreign_share(
                self._account,
                account,
                own_seconds=cpu,
                n_cpus=len(self._cpus),
                cores=self._cores,
            ),
            gpu_utilization=None if self._gpu is None else self._gpu.utilization,
            gpu_memory_bytes=None if self._gpu is None else self._gpu.peak_memory_bytes,
        )

    def cpu_seconds_so_far(self, usage: Usage) -> float:
        """CPU seconds of all processes since `begin`."""
        return usage.cpu_seconds - self._at_begin.cpu_seconds

    def read(self) -> Usage:
        """The present totals over all processes."""
        rss = 0
        for pid, process in self._processes.items():
            with suppress(psutil.Error, OSError):
                self._cpu_seconds[pid] = _cpu_seconds(process)
                rss += process.memory_info().rss
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss)
        if self._gpu is not None:
            self._gpu.look()
        return Usage(sum(self._cpu_seconds.values()), self._cpu_seconds.get(os.getpid(), 0.0), rss)

    def _look_around(self) -> None:
        """Find the processes; environments may have started some of their own."""
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            self._processes.setdefault(process.pid, process)

    def _involuntary_switches(self) -> int:
        """Of all threads: the kernel's figure for a process is that of its first thread."""
        total = 0
        for pid in self._processes:
            for file in Path(f"/proc/{pid}/task").glob("*/status"):
                with suppress(OSError, ValueError):
                    total += int(file.read_text().rpartition("nonvoluntary_ctxt_switches:")[2])
        return total


def _cpu_seconds(process: psutil.Process) -> float:
    """User and system time of all its threads, the ended ones included, in nanoseconds where
    another process's clock can be read (Linux: clock_getcpuclockid(3)), else in ticks."""
    if hasattr(os, "sched_getaffinity"):
        return time.clock_gettime((~process.pid << 3) | 2)
    times = process.cpu_times()
    return float(times.user + times.system)
