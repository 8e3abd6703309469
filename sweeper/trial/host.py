"""What machine, versions and hardware class a run is measured on."""

from __future__ import annotations

import platform
import socket
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from sweeper import __version__
from sweeper.core.records import HostRecord
from sweeper.trial.cores import usable_cores
from sweeper.trial.gpu import find_gpus


@cache
def this_host() -> HostRecord:
    """This machine, as the process that runs the trial sees it."""
    cpu, cores, gpus = _cpu_model(), len(usable_cores()), find_gpus()
    return HostRecord(
        hostname=socket.gethostname(),
        hardware_class=f"{cpu} x {cores}",
        cpu_model=cpu,
        usable_cores=cores,
        memory_bytes=psutil.virtual_memory().total,
        gpu_model=None if gpus is None else ", ".join(gpus.names),
        os=platform.platform(),
        python=platform.python_version(),
        torch=_version("torch"),
        gymnasium=_version("gymnasium"),
        sweeper=__version__,
    )


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
