"""Control groups as files in a folder of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.trial.cgroup import cpu_quota, memory_limit


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None
    assert memory_limit(tmp_path) is None


@pytest.mark.parametrize(
    ("limits", "quota"),
    [
        ({"a/b/cpu.max": "max 100000"}, None),
        ({"a/b/cpu.max": "150000 100000"}, 1.5),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ({"a/b/cpu.max": "400000 100000", "cpu.max": "50000 100000"}, 0.5),
        ({"a/c/cpu.max": "100000 100000"}, None),  # somebody else's
    ],
)
def test_the_tightest_quota_of_the_ancestors_holds(
    tmp_path: Path, limits: dict[str, str], quota: float | None
) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/a/b\n"})
    write(tmp_path / "sys/fs/cgroup", limits)
    assert cpu_quota(tmp_path) == quota


def test_the_first_version_of_control_groups_counts_as_well(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert cpu_quota(tmp_path) == 3.0
    assert memory_limit(tmp_path) == 2**30


def test_a_container_finds_its_limit_at_the_root_of_the_mount(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../outside\n",
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/memory.max": "2048\n",
        },
    )
    assert cpu_quota(tmp_path) == 2.0
    assert memory_limit(tmp_path) == 2048
