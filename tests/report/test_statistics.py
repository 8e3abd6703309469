from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.report.statistics import bootstrap, interquartile_mean


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7.0], 7.0), ([1.0, 2.0, 3.0, 100.0], 2.5), (list(range(8)), 3.5), ([1.0, 2.0, 9.0], 4.0)],
)
def test_interquartile_mean_worked_by_hand(values, expected):
    assert interquartile_mean(values) == pytest.approx(expected)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30))
def test_interquartile_mean_ignores_order_and_stays_within_the_values(values):
    result = float(interquartile_mean(values))
    assert result == pytest.approx(float(interquartile_mean(values[::-1])))
    assert min(values) - 1e-9 <= result <= max(values) + 1e-9


def test_bootstrap_interval_of_a_mean_agrees_with_the_normal_one():
    values = np.random.default_rng(1).normal(10.0, 2.0, size=400)
    interval = bootstrap([values])
    half = 1.96 * values.std() / np.sqrt(400)
    assert interval.value == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.03)


def test_bootstrap_resamples_within_each_stratum():
    # Each stratum is constant: resampled apart, nothing can vary.
    interval = bootstrap([[0.0] * 5, [100.0] * 5])
    assert (interval.low, interval.value, interval.high) == (50.0, 50.0, 50.0)


def test_bootstrap_is_reproducible_and_its_seed_matters():
    values = np.arange(9.0)
    assert bootstrap([values], seed=3) == bootstrap([values], seed=3)
    assert bootstrap([values], seed=3) != bootstrap([values], seed=4)


def test_one_value_has_no_interval():
    assert bootstrap([[3.0]]) is None
    assert bootstrap([[], []]) is None
