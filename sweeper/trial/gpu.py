"""How busy and how full the GPUs are, where there are any and NVML tells of them.

NVML (`pip install 'sweeper[gpu]'`) tells of whole devices. Of the processes on them it knows
the host's numbers, which mean nothing in a container; so what others do there counts as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

LOOK_SECONDS = 1.0
"""Between two readings; the drivers average over up to a second themselves."""


class GpuReading(NamedTuple):
    """All visible GPUs at a moment."""

    utilization: float | None
    """Share of the last moments in which a kernel ran, mean over the GPUs; None where a device
    does not tell (a partition of one)."""
    memory_bytes: int
    """In use, over all of them."""


class Gpus:
    """The GPUs that this process may see. nvml: the module `pynvml`, initialized."""

    def __init__(self, nvml: Any, handles: Sequence[Any]) -> None:
        self._nvml = nvml
        self._handles = handles
        self.names = tuple(str(nvml.nvmlDeviceGetName(handle)) for handle in handles)
        self.memory_bytes = sum(int(nvml.nvmlDeviceGetMemoryInfo(h).total) for h in handles)

    def read(self) -> GpuReading:
        """As they are now."""
        nvml, used = self._nvml, 0
        try:
            used = sum(int(nvml.nvmlDeviceGetMemoryInfo(handle).used) for handle in self._handles)
            percents = [nvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in self._handles]
        except nvml.NVMLError:  # it does not tell, or was lost: no reason for a trial to fail
            return GpuReading(None, used)
        return GpuReading(sum(percents) / len(percents) / 100.0, used)


@cache
def find_gpus() -> Gpus | None:
    """The visible GPUs; None without one, without its driver, or without `pynvml`."""
    try:
        import pynvml  # noqa: PLC0415 - optional
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        uuids = [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        seen = visible(uuids, os.environ.get("CUDA_VISIBLE_DEVICES"))
        return Gpus(pynvml, [handles[i] for i in seen]) if seen else None
    except pynvml.NVMLError:
        return None


def visible(uuids: Sequence[str], setting: str | None) -> list[int]:
    """Indices of the GPUs that CUDA_VISIBLE_DEVICES leaves, read as CUDA does: all if it is
    not set; else those it names, by number or by the beginning of a UUID, up to the first
    word that names none.
    """
    if setting is None:
        return list(range(len(uuids)))
    seen: list[int] = []
    for word in setting.split(","):
        word = word.strip()
        if word.isdecimal():
            found = [int(word)] if int(word) < len(uuids) else []
        else:
            found = [i for i, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(found) != 1:
            break
        seen += found
    return seen


class GpuMeter:
    """Utilization and peak memory over a run, from readings about a second apart.

    A reading's utilization stands for the time since the one before.
    """

    def __init__(
        self, read: Callable[[], GpuReading], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._now = now
        self._busy_seconds = self._seconds = 0.0
        self._looked_at: float | None = None
        self.peak_memory_bytes = 0

    def look(self, *, is_last: bool = False) -> None:
        """Read them, if the last reading is not too recent."""
        now, before = self._now(), self._looked_at
        if before is not None and now - before < LOOK_SECONDS and not is_last:
            return
        reading = self._read()
        self._looked_at = now
        self.peak_memory_bytes = max(self.peak_memory_bytes, reading.memory_bytes)
        if before is not None and reading.utilization is not None:
            self._busy_seconds += reading.utilization * (now - before)
            self._seconds += now - before

    @property
    def utilization(self) -> float | None:
        """Mean over the time since the first look; None before a second one."""
        return self._busy_seconds / self._seconds if self._seconds else None
