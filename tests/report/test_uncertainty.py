from __future__ import annotations

import math

import numpy as np
import pytest

from sweeper.report.uncertainty import (
    front_probabilities,
    intervals,
    runs_by_trial,
    seed_deviation,
)


@pytest.fixture
def study(make_study):
    return make_study()


def make_runs(make_slot, **values):
    """values: trial_1=[(return, speed), ...]"""
    return [
        make_slot(trial_id=int(name.split("_")[1]), final_return=r, steps_per_second=s)
        for name, pairs in values.items()
        for r, s in pairs
    ]


def test_noise_between_seeds_is_pooled_over_the_trials_that_have_several(make_slot):
    runs = make_runs(make_slot, trial_1=[(1.0, 9.0), (3.0, 9.0)], trial_2=[(0.0, 1.0)] * 3)
    # Squares 2 with 1 degree of freedom, and 0 with 2.
    deviation = seed_deviation(runs_by_trial(runs), "final_return")
    assert deviation == pytest.approx(math.sqrt(2 / 3))


def test_noise_of_a_speed_is_a_share_of_it(make_slot):
    slow = make_runs(make_slot, trial_1=[(0.0, 100.0), (0.0, 200.0)])
    fast = make_runs(make_slot, trial_1=[(0.0, 1e5), (0.0, 2e5)])
    deviations = [seed_deviation(runs_by_trial(r), "steps_per_second") for r in (slow, fast)]
    assert deviations[0] == pytest.approx(deviations[1])


def test_runs_that_failed_or_have_test_seeds_say_nothing(make_slot):
    runs = [
        make_slot(trial_id=1, final_return=1.0, steps_per_second=1.0),
        make_slot(trial_id=1, final_return=9.0, status="LOST"),
        make_slot(trial_id=1, final_return=9.0, seed_kind="test"),
    ]
    assert seed_deviation(runs_by_trial(runs), "final_return") is None


def test_without_a_second_run_nothing_is_claimed(study, make_trial, make_slot):
    trial = make_trial(1, final_return=1.0, steps_per_second=1.0)
    runs = make_runs(make_slot, trial_1=[(1.0, 1.0)])
    assert front_probabilities(study, [trial], runs) is None


def test_probability_of_two_trials_that_differ_in_noise_alone(study, make_trial, make_slot):
    """Equal speeds without noise, so that the better return alone decides: each is as likely,
    and with a lead of d the better one wins with P(N(0, 2 s^2) < d)."""
    speed = 100.0
    runs = make_runs(make_slot, trial_1=[(9.0, speed), (11.0, speed)])  # s = sqrt(2)
    for lead in (0.0, 2.0):
        trials = [
            make_trial(1, final_return=10.0 + lead, steps_per_second=speed),
            make_trial(2, final_return=10.0, steps_per_second=speed),
        ]
        found = front_probabilities(study, trials, runs)
        expected = 0.5 * (1 + math.erf(lead / math.sqrt(2 * 2) / math.sqrt(2)))
        assert found[1] == pytest.approx(expected, abs=0.08)
        assert found[1] + found[2] == pytest.approx(1.0)


def test_more_runs_make_it_surer(study, make_trial, make_slot):
    runs = make_runs(make_slot, trial_1=[(9.0, 5.0), (11.0, 5.0)])

    def lead(n_runs: int) -> float:
        trials = [
            make_trial(1, final_return=11.0, steps_per_second=5.0, n_runs=n_runs),
            make_trial(2, final_return=10.0, steps_per_second=5.0, n_runs=n_runs),
        ]
        return front_probabilities(study, trials, runs)[1]

    assert lead(25) > lead(1) + 0.1


def test_trials_that_cannot_be_on_the_front_are_left_out(study, make_trial, make_slot):
    runs = make_runs(make_slot, trial_1=[(9.0, 5.0), (11.0, 5.1)])
    trials = [
        make_trial(1, final_return=500.0, steps_per_second=500.0),
        make_trial(2, final_return=10.0, steps_per_second=5.0),
        make_trial(3, final_return=900.0, steps_per_second=900.0, feasible=False),
        make_trial(4, final_return=900.0, steps_per_second=900.0, contended=True),
    ]
    assert front_probabilities(study, trials, runs) == {1: 1.0}


def test_leaving_out_the_hopeless_changes_nothing(study, make_trial, make_slot):
    draw = np.random.default_rng(0)
    runs = make_runs(make_slot, trial_1=[(95.0, 100.0), (105.0, 104.0)])
    values = draw.uniform(50, 500, size=(300, 2))
    trials = [
        make_trial(n, final_return=float(r), steps_per_second=float(s))
        for n, (r, s) in enumerate(values, 1)
    ]
    found = front_probabilities(study, trials, runs)
    assert 0 < len(found) < 100
    assert all(0 < p <= 1 for p in found.values())


def test_interval_needs_two_runs(make_slot):
    one = make_runs(make_slot, trial_1=[(1.0, 5.0)])
    assert intervals(one, ["final_return"]) == {}
    two = make_runs(make_slot, trial_1=[(1.0, 5.0), (3.0, 7.0)])
    found = intervals(two, ["final_return", "steps_per_second"])["final_return"]
    assert (found.low, found.value, found.high) == (1.0, 2.0, 3.0)
