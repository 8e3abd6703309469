from __future__ import annotations

import numpy as np
import pytest

from sweeper.report.speedup import seconds_to_reach, speed_up


@pytest.fixture
def curve(make_measurement):
    def make(*points):
        return [make_measurement(elapsed_seconds=t, training_return=r) for t, r in points]

    return make


def test_speed_up_is_the_ratio_of_times_to_an_equal_return(curve):
    baseline = curve((1.0, None), (2.0, 0.0), (9.0, 98.0), (10.0, 100.0))
    quick = curve((0.5, 50.0), (1.5, 97.0), (1.8, 97.5), (10.0, 40.0))
    result = speed_up([baseline], [quick])
    assert result.target_return == pytest.approx(97.3)
    assert (result.baseline_seconds, result.seconds) == (9.0, 1.8)
    assert result.ratio == pytest.approx(5.0)
    assert (result.low, result.high) == (None, None), "one seed is drawn as one seed"


@pytest.mark.parametrize("shift", [-1000.0, 0.0, 1000.0])
def test_target_is_a_share_of_the_improvement_wherever_zero_lies(curve, shift):
    def shifted(*points):
        return curve(*((t, r + shift) for t, r in points))

    baseline = shifted((1.0, 20.0), (9.0, 118.0), (10.0, 120.0))
    quick = shifted((1.0, 0.0), (1.8, 117.5))
    result = speed_up([baseline], [quick])
    assert result.target_return == pytest.approx(117.3 + shift)
    assert result.ratio == pytest.approx(5.0)


def test_runs_of_one_configuration_are_averaged(curve):
    baseline = [curve((0.0, 0.0), (8.0, 100.0)), curve((0.0, 0.0), (10.0, 100.0))]
    result = speed_up(baseline, [curve((1.0, 100.0)), curve((2.0, 100.0))])
    assert result.ratio == pytest.approx(6.0)
    assert (result.n_baseline_runs, result.n_runs) == (2, 2)


def test_interval_is_that_of_drawing_seeds_again(curve):
    baseline = [curve((0.0, 0.0), (10.0, 100.0))] * 2
    times = [1.0, 2.0, 4.0, 5.0, 8.0]
    result = speed_up(baseline, [curve((t, 100.0)) for t in times], resamples=4000)
    draws = np.random.default_rng(1).choice(times, size=(4000, 5)).mean(axis=1)
    low, high = np.quantile(10.0 / draws, (0.025, 0.975))
    assert result.ratio == pytest.approx(2.5)
    assert (result.low, result.high) == (
        pytest.approx(low, rel=0.05),
        pytest.approx(high, rel=0.05),
    )


def test_interval_holds_the_baselines_seeds_too(curve):
    baseline = [curve((0.0, 0.0), (t, 100.0)) for t in (5.0, 10.0, 15.0)]
    result = speed_up(baseline, [curve((1.0, 100.0))] * 2)
    assert result.ratio == pytest.approx(10.0)
    assert 5.0 <= result.low < 10.0 < result.high <= 15.0


def test_a_side_with_one_seed_leaves_the_interval_unknown(curve):
    one, two = [curve((0.0, 0.0), (5.0, 100.0))], [curve((1.0, 100.0)), curve((2.0, 100.0))]
    for baseline, configuration in ((one, two), (one * 2, two[:1])):
        result = speed_up(baseline, configuration)
        assert (result.low, result.high) == (None, None)


def test_baseline_seed_that_falls_short_counts_with_its_whole_time(curve):
    baseline = [curve((0.0, 0.0), (8.0, 200.0)), curve((0.0, 0.0), (10.0, 50.0))]
    result = speed_up(baseline, [curve((1.0, 300.0))])
    assert result.baseline_seconds == 9.0


def test_not_reached_stays_not_reached(curve):
    baseline, slow = curve((0.0, 0.0), (9.0, 100.0)), curve((10.0, 90.0))
    assert seconds_to_reach(slow, 97.3) is None
    assert speed_up([baseline], [slow]) is None
    assert speed_up([baseline], [curve((1.0, 100.0)), slow]) is None


def test_baseline_that_did_not_improve_sets_no_target(curve):
    assert speed_up([curve((1.0, 50.0), (9.0, 20.0))], [curve((1.0, 100.0))]) is None
    assert speed_up([curve((1.0, 50.0), (9.0, 50.0))], [curve((1.0, 100.0))]) is None


def test_without_a_curve_on_either_side_there_is_no_speed_up(curve):
    assert speed_up([], [curve((1.0, 1.0))]) is None
    assert speed_up([curve((1.0, None))], [curve((1.0, 1.0))]) is None
    assert speed_up([curve((1.0, 0.0), (2.0, 1.0))], []) is None
    assert speed_up([curve((1.0, 0.0), (2.0, 1.0))], [curve((1.0, None))]) is None
