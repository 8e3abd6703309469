from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sweeper.report.pareto import (
    front,
    hypervolume,
    hypervolume_over_time,
    hypervolume_over_trials,
    non_dominated,
    study_front,
)

# A coarse grid of values makes ties and duplicates common.
grid = st.one_of(st.integers(-3, 3).map(float), st.just(float("nan")))
points = st.integers(2, 4).flatmap(
    lambda k: hnp.arrays(np.float64, st.tuples(st.integers(0, 12), st.just(k)), elements=grid)
)


def beats(a, b, maximize) -> bool:
    signed = [(x, y) if up else (-x, -y) for x, y, up in zip(a, b, maximize, strict=True)]
    return all(x >= y for x, y in signed) and any(x > y for x, y in signed)


@given(points, st.integers(0, 15))
def test_front_is_what_brute_force_says(values, bits):
    maximize = tuple(bool(bits >> j & 1) for j in range(values.shape[1]))
    known = [row for row in values if not np.isnan(row).any()]
    expected = [
        not np.isnan(row).any() and not any(beats(other, row, maximize) for other in known)
        for row in values
    ]
    assert non_dominated(values, maximize).tolist() == expected


@given(
    st.integers(2, 3).flatmap(
        lambda k: hnp.arrays(
            np.float64, st.tuples(st.integers(0, 7), st.just(k)), elements=st.integers(0, 4)
        )
    )
)
def test_hypervolume_counts_the_unit_cells_below_the_front(values):
    k = values.shape[1]
    cells = itertools.product(range(5), repeat=k)
    dominated = sum(any((row >= np.array(cell) + 1).all() for row in values) for cell in cells)
    assert hypervolume(values, [0.0] * k, (True,) * k) == pytest.approx(dominated)


def test_hypervolume_of_mixed_directions_worked_by_hand():
    # Return up, seconds down; the reference is (0, 10): 3 x 8 + (5 - 3) x 4.
    values = [[3.0, 2.0], [5.0, 6.0], [1.0, 9.0], [9.0, 11.0], [np.nan, 0.0]]
    assert hypervolume(values, [0.0, 10.0], (True, False)) == pytest.approx(32.0)


def test_equal_points_are_on_the_front_together():
    assert non_dominated([[1, 2], [1, 2], [0, 2]], (True, True)).tolist() == [True, True, False]


def test_values_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"\[n, 3\], got \[2, 2\]"):
        non_dominated([[1, 2], [3, 4]], (True, True, False))


def test_front_takes_only_feasible_completed_trials_with_every_objective(make_trial):
    good = {"final_return": 100.0, "steps_per_second": 10.0}
    best = {"final_return": 500.0, "steps_per_second": 99.0}
    trials = [
        make_trial(1, **good),
        make_trial(2, **best, feasible=False),
        make_trial(3, **best, feasible=None),
        make_trial(4, **best, status="DIVERGED"),
        make_trial(5, final_return=900.0),
    ]
    objectives = {"final_return": "maximize", "steps_per_second": "maximize"}
    assert [trial.number for trial in front(trials, objectives)] == [1]


def test_front_begins_with_the_best_of_the_first_objective(make_trial):
    values = [(10.0, 5.0), (30.0, 1.0), (20.0, 3.0), (9.0, 4.0)]
    trials = [
        make_trial(n, final_return=r, steps_per_second=s) for n, (r, s) in enumerate(values, 1)
    ]
    objectives = {"final_return": "maximize", "steps_per_second": "maximize"}
    assert [trial.number for trial in front(trials, objectives)] == [2, 3, 1]


def test_front_of_no_trials_is_empty():
    assert front([], {"final_return": "maximize"}) == ()


def test_trial_of_another_budget_is_not_compared(make_study, make_trial):
    slow = make_trial(1, final_return=500.0, steps_per_second=9.0, budget_seconds=600.0)
    quick = make_trial(2, final_return=300.0, steps_per_second=8.0)
    assert study_front(make_study(), [slow, quick]) == (quick,)


def test_hypervolume_grows_when_a_trial_joins_the_front(make_study, make_trial):
    values = [(10.0, 1.0), (5.0, 0.5), (1.0, 10.0), (10.0, 10.0)]
    trials = [
        make_trial(n, final_return=r, steps_per_second=s) for n, (r, s) in enumerate(values, 1)
    ]
    seconds, shares = hypervolume_over_time(make_study(), trials)
    assert seconds == [0.0, 10.0, 30.0, 40.0, 40.0]  # the second trial changes nothing
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[-1] == pytest.approx(1.0)


def test_hypervolume_over_trials_ends_where_that_over_time_does(make_study, make_trial):
    trials = [
        make_trial(1, final_return=1.0, steps_per_second=1.0),
        make_trial(2, final_return=0.5, steps_per_second=0.5),
        make_trial(3, status="ERROR"),
        make_trial(4, final_return=2.0, steps_per_second=2.0),
    ]
    numbers, shares = hypervolume_over_trials(make_study(), trials)
    assert numbers == [1, 2, 4]
    assert shares == sorted(shares)
    assert shares[0] == shares[1] < shares[2]
    assert shares[-1] == hypervolume_over_time(make_study(), trials)[1][-1]
    assert hypervolume_over_trials(make_study(), []) == ([], [])
