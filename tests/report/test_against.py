"""A trial against the baseline: each line worked by hand."""

from __future__ import annotations

import pytest

from sweeper.report.against import against, against_table
from sweeper.report.speedup import SpeedUp

FASTER = SpeedUp(
    ratio=7.1,
    low=6.0,
    high=8.0,
    target_return=97.3,
    seconds=10.0,
    baseline_seconds=71.0,
    n_runs=3,
    n_baseline_runs=1,
)


@pytest.fixture
def run(make_run):
    def make(final_return, *, speed=1000.0, cpu_seconds=10.0, elapsed_seconds=10.0):
        return make_run(
            final_return=final_return,
            steps_per_second=speed,
            cpu_seconds=cpu_seconds,
            elapsed_seconds=elapsed_seconds,
        )

    return make


def test_the_time_is_that_of_the_speed_up_and_the_rest_are_means_and_their_factors(run):
    before = [run(100.0, elapsed_seconds=100.0, cpu_seconds=100.0)] * 2
    after = [run(90.0, speed=4000.0, cpu_seconds=19.0), run(120.0, speed=6000.0, cpu_seconds=21.0)]
    time, final, speed, cpu = against(before, after, FASTER)
    assert (time.before, time.after, time.factor) == (71.0, 10.0, 7.1)
    assert (time.low, time.high) == (6.0, 8.0)
    assert (final.before, final.after, final.factor) == (100.0, 105.0, pytest.approx(1.05))
    assert (final.low, final.high) == (pytest.approx(0.9), pytest.approx(1.2))
    assert (speed.factor, cpu.factor) == (pytest.approx(5.0), pytest.approx(2.0))


def test_a_side_with_one_run_leaves_the_interval_unknown(run):
    _, final, *_ = against([run(100.0)], [run(50.0), run(50.0)], None)
    assert (final.factor, final.low, final.high) == (0.5, None, None)


def test_returns_that_are_not_positive_have_no_factor(run):
    _, final, *_ = against([run(-200.0)], [run(-100.0)], None)
    assert (final.before, final.after, final.factor) == (-200.0, -100.0, None)


def test_what_was_never_reached_or_measured_is_a_blank(run):
    table = against_table(
        against([run(1.0)], [run(None, cpu_seconds=None)], None),
        trial=7,
    )
    assert table.head == ("", "baseline", "trial 7", "factor", "95% interval")
    assert [row[1:] for row in table.rows] == [
        ("–", "–", "–", ""),
        ("1", "–", "–", ""),
        ("1,000", "1,000", "1", ""),
        ("1", "–", "–", ""),
    ]
