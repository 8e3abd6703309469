"""The kernel's account of cores, against numbers worked by hand and a process that burns."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sweeper.trial.contention import CpuAccount, foreign_share, idle_seconds, read_account
from sweeper.trial.pinning import pinned_to
from sweeper.trial.usage import UsageMeter

STAT = """cpu  99 99 99 9999 99 0 0 0 0 0
cpu0 10 0 20 700 30 1 2 3 0 0
cpu1 0 0 0 100 0 0 0 50 0 0
cpu10 0 0 0 5000 0 0 0 0 0 0
intr 1 2 3
"""


def test_idle_time_is_that_of_the_cpus_in_question_in_seconds() -> None:
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert idle_seconds(STAT, [0]) == pytest.approx(730 * tick)
    assert idle_seconds(STAT, [0, 1]) == pytest.approx(830 * tick)
    assert idle_seconds(STAT, []) == 0


def test_what_neither_idled_nor_was_the_trials_own_is_foreign() -> None:
    share = foreign_share(
        CpuAccount(100.0, 50.0),
        CpuAccount(110.0, 54.0),  # 2 CPUs x 10 s - 4 s idle = 16 s busy
        own_seconds=15.0,
        n_cpus=2,
        cores=1,
    )
    assert share == pytest.approx(0.1)


def test_nothing_is_said_of_a_moment_or_without_an_account() -> None:
    before = CpuAccount(0.0, 0.0)
    kwargs = {"own_seconds": 0.0, "n_cpus": 1, "cores": 1}
    assert foreign_share(before, CpuAccount(4.9, 0.0), **kwargs) is None
    assert foreign_share(None, CpuAccount(9.0, 0.0), **kwargs) is None
    assert foreign_share(before, CpuAccount(9.0, 9.1), **kwargs) == 0.0  # rounding


BURN = """
import os, sys, time
if sys.argv[1] == "orphan" and os.fork():
    os._exit(0)
print("ready", flush=True)
input()
begun, end = time.process_time(), time.monotonic() + 5.1
while time.monotonic() < end:
    pass
print(time.process_time() - begun, flush=True)
input()
"""


def burn(kinship: str) -> tuple[float, float]:
    """Foreign share of a core while a process burns on it, and the share that this one took."""
    cpu = max(os.sched_getaffinity(0))
    with (
        pinned_to([cpu]),
        subprocess.Popen(
            [sys.executable, "-c", BURN, kinship],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        meter = UsageMeter([cpu], cores=1)
        meter.begin()
        before = read_account([cpu])
        print(file=process.stdin, flush=True)
        burned = float(process.stdout.readline())
        cost, after = meter.end(), read_account([cpu])
        print(file=process.stdin, flush=True)
    assert before is not None
    assert after is not None
    assert cost.foreign_cpu_share is not None
    return cost.foreign_cpu_share, burned / (after.at - before.at)


@pytest.mark.system
def test_a_stranger_on_the_core_is_foreign() -> None:
    foreign, burned = burn("orphan")
    assert foreign >= burned - 0.1  # the kernel's idle time and its CPU time are two accounts


@pytest.mark.system
def test_what_the_trial_has_started_is_not_foreign() -> None:
    """Whoever else uses this machine is foreign in any case."""
    foreign, burned = burn("child")
    assert foreign <= 1.0 - burned + 0.05
