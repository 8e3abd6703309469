from __future__ import annotations

import pytest

from sweeper.report.speedup import seconds_to_reach, speed_up


@pytest.fixture
def curve(make_measurement):
    def make(*points):
        return [make_measurement(elapsed_seconds=t, training_return=r) for t, r in points]

    return make


def test_speed_up_is_the_ratio_of_times_to_an_equal_return(curve):
    baseline = curve((1.0, None), (2.0, 20.0), (9.0, 98.0), (10.0, 100.0))
    quick = curve((0.5, 50.0), (1.5, 97.0), (1.8, 97.5), (10.0, 40.0))
    result = speed_up([baseline], [quick])
    assert result.target_return == pytest.approx(97.3)
    assert (result.baseline_seconds, result.seconds) == (9.0, 1.8)
    assert result.ratio == pytest.approx(5.0)


def test_runs_of_one_configuration_are_averaged(curve):
    baseline = [curve((8.0, 100.0)), curve((10.0, 100.0))]
    result = speed_up(baseline, [curve((1.0, 100.0)), curve((2.0, 100.0))])
    assert result.ratio == pytest.approx(6.0)
    assert (result.n_baseline_runs, result.n_runs) == (2, 2)


def test_not_reached_stays_not_reached(curve):
    baseline, slow = curve((9.0, 100.0)), curve((10.0, 90.0))
    assert seconds_to_reach(slow, 97.3) is None
    assert speed_up([baseline], [slow]) is None
    assert speed_up([baseline], [curve((1.0, 100.0)), slow]) is None


def test_no_share_of_a_negative_return_is_taken(curve):
    assert speed_up([curve((9.0, -100.0))], [curve((1.0, -50.0))]) is None


def test_without_a_baseline_there_is_no_speed_up(curve):
    assert speed_up([], [curve((1.0, 1.0))]) is None
    assert speed_up([curve((1.0, None))], [curve((1.0, 1.0))]) is None
