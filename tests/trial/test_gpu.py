"""What is made of NVML's readings. A GPU itself is not needed, and not to be had everywhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sweeper.core.clock import ManualClock
from sweeper.trial.gpu import GpuMeter, GpuReading, visible

UUIDS = ("GPU-11aa", "GPU-22bb", "GPU-22cc")


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("GPU-11,1", [0, 1]),
        ("1,7,0", [1]),
        ("GPU-22", []),  # which of the two?
        ("-1", []),
    ],
)
def test_the_gpus_are_those_that_cuda_leaves_visible(setting, seen):
    assert visible(UUIDS, setting) == seen


def test_utilization_is_weighted_by_time_and_memory_is_the_peak():
    clock = ManualClock()
    readings = iter([(0.9, 100), (0.5, 300), (0.0, 200), (1.0, 100)])
    meter = GpuMeter(lambda: GpuReading(*next(readings)), now=clock.now)
    meter.look()  # 0.9 is what was before
    assert meter.utilization is None
    clock.advance(1.0)
    meter.look()
    clock.advance(0.5)
    meter.look()  # too soon: not read
    clock.advance(2.5)
    meter.look()
    clock.advance(0.5)
    meter.look(is_last=True)
    assert meter.utilization == pytest.approx((0.5 * 1.0 + 0.0 * 3.0 + 1.0 * 0.5) / 4.5)
    assert meter.peak_memory_bytes == 300


def test_a_device_that_does_not_tell_how_busy_it_is_still_has_memory():
    clock = ManualClock()
    meter = GpuMeter(lambda: GpuReading(None, 7), now=clock.now)
    for _ in range(3):
        meter.look()
        clock.advance(2.0)
    assert (meter.utilization, meter.peak_memory_bytes) == (None, 7)


def test_without_pynvml_there_are_no_gpus():
    program = (
        "import sys; sys.modules['pynvml'] = None; "
        "from sweeper.trial.gpu import find_gpus; assert find_gpus() is None"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
