from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.core.errors import InputError
from sweeper.trial.cores import (
    LEASES,
    CoreLease,
    lease_cores,
    usable_cores,
    usable_cpus,
    within_quota,
)

HOLD = """
from sweeper.trial.cores import lease_cores
lease = lease_cores({n})
print(1, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def _own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASES, str(tmp_path))


@pytest.fixture
def holder() -> subprocess.Popen[str]:
    """Another process that holds every core until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(n=len(usable_cores()))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    yield process
    process.kill()
    process.communicate()


def test_cores_are_those_this_process_may_use() -> None:
    assert sorted(cpu for core in usable_cores() for cpu in core) <= list(usable_cpus())
    assert set(usable_cpus()) == os.sched_getaffinity(0)


def test_the_affinity_mask_bounds_the_cores() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == [(min(before),)]
    finally:
        os.sched_setaffinity(0, before)


def test_leases_are_exclusive_and_come_back() -> None:
    first = lease_cores(1, wait_seconds=0)
    rest = lease_cores(len(usable_cores()) - 1, wait_seconds=0)
    assert not set(first.cpus) & set(rest.cpus)
    with pytest.raises(
        InputError, match=rf"0 of \d+ cores free; core 0 is held by process {os.getpid()} on "
    ):
        lease_cores(1, wait_seconds=0)
    first.release()
    first.release()
    again = lease_cores(1, wait_seconds=0)
    assert again.cpus == first.cpus
    again.release()
    rest.release()


def test_a_lease_that_cannot_be_whole_takes_nothing() -> None:
    held = lease_cores(1, wait_seconds=0)
    with pytest.raises(InputError):
        lease_cores(len(usable_cores()), wait_seconds=0)
    rest = lease_cores(len(usable_cores()) - 1, wait_seconds=0)
    held.release()
    rest.release()


def test_more_cores_than_there_are_is_refused_at_once() -> None:
    n = len(usable_cores()) + 1
    with pytest.raises(InputError, match=f"{n} asked for, {n - 1} usable"):
        lease_cores(n, wait_seconds=1000)


def test_no_cores_at_all_are_refused() -> None:
    with pytest.raises(InputError, match="0 asked for"):
        lease_cores(0)


def test_a_lease_names_every_core_before_it_names_a_second_hyperthread() -> None:
    lease = CoreLease([(0, 4), (1, 5), (2,)], ())
    assert lease.cpus == (0, 1, 2, 4, 5)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        (None, [(0, 4), (1, 5), (2, 6), (3, 7)]),
        (8.0, [(0, 4), (1, 5), (2, 6), (3, 7)]),
        (4.0, [(0,), (1,), (2,), (3,)]),
        (2.5, [(0,), (1,)]),
        (0.5, [(0,)]),
    ],
)
def test_a_quota_is_never_exceeded_by_using_every_core(
    quota: float | None, cores: list[tuple[int, ...]]
) -> None:
    assert within_quota([(0, 4), (1, 5), (2, 6), (3, 7)], quota) == cores


def test_the_folder_of_leases_is_open_to_every_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shared"
    monkeypatch.setenv(LEASES, str(folder))
    lease_cores(1).release()
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert all(file.stat().st_mode & 0o777 == 0o666 for file in folder.iterdir())


def test_a_released_core_is_free_even_if_a_forked_child_has_its_file_open() -> None:
    lease = lease_cores(len(usable_cores()))
    duplicates = [os.dup(descriptor) for descriptor in lease._descriptors]
    lease.release()
    lease_cores(len(usable_cores())).release()
    for descriptor in duplicates:
        os.close(descriptor)


@pytest.mark.system
def test_a_lease_dies_with_its_holder(holder: subprocess.Popen[str]) -> None:
    with pytest.raises(InputError, match=rf"is held by process {holder.pid} on"):
        lease_cores(1, wait_seconds=0)
    holder.kill()
    holder.wait()
    lease_cores(len(usable_cores()), wait_seconds=0).release()


@pytest.mark.system
def test_a_child_that_is_executed_holds_no_lease() -> None:
    lease = lease_cores(1, wait_seconds=0)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lease.release()
    lease_cores(len(usable_cores()), wait_seconds=0).release()
    child.communicate(b"\n")
