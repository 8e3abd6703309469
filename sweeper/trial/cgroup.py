"""What the control group of this process lets it have: a container's share of the machine.

A limit holds for all groups below the one that states it, so every ancestor is asked. Inside a
container the path that the kernel names may not be mounted; the root of the mount is then the
container's own group, and is asked as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs' worth of time that may be used; None without a limit. `root`: of the file system."""
    v2 = (_ratio(_words(folder / "cpu.max")) for folder in _groups(root, ""))
    v1 = (
        _ratio(_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us"))
        for folder in _groups(root, "cpu")
    )
    return min((quota for quota in (*v2, *v1) if quota is not None), default=None)


def memory_limit(root: Path = ROOT) -> int | None:
    """Bytes of memory that may be used; None without a limit below what machines have."""
    files = [folder / "memory.max" for folder in _groups(root, "")]
    files += [folder / "memory.limit_in_bytes" for folder in _groups(root, "memory")]
    limits = [int(words[0]) for file in files if (words := _words(file)) and words[0].isdigit()]
    return min((limit for limit in limits if limit < 1 << 60), default=None)  # v1's "no limit"


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's group and its ancestors; `controller` "" is cgroup v2."""
    mount = root / "sys/fs/cgroup" / controller
    yield mount
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            group = PurePosixPath(path.lstrip("/"))
            yield from (mount / each for each in (group, *group.parents))


def _ratio(words: list[str]) -> float | None:
    """quota / period of [quota, period]; None for "max", -1 and what is not there."""
    if len(words) != 2 or not words[0].isdigit() or words[0] == "0":
        return None
    return int(words[0]) / int(words[1])


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
