from __future__ import annotations

import pytest

from sweeper.report.anytime import MAX_TRIALS, anytime, anytime_figure, contenders


@pytest.fixture
def curve(make_point):
    def make(*points):
        return [make_point(elapsed_seconds=t, training_return=r) for t, r in points]

    return make


def test_leader_changes_when_another_curve_overtakes(make_trial, curve):
    trials = [make_trial(1), make_trial(2)]
    curves = {
        1: [curve((1.0, 50.0), (10.0, 60.0))],
        2: [curve((1.0, 10.0), (5.0, 55.0), (10.0, 99.0))],
    }
    front = anytime(trials, curves)
    assert [leader.number for leader in front.leaders] == [1, 2]
    assert front.leaders[0].seconds == pytest.approx(1.0)
    assert front.leaders[1].seconds == pytest.approx(5.0)
    assert (front.best[-1], front.numbers[-1]) == (99.0, 2)
    assert front.numbers[0] is None  # nobody had finished an episode


def test_several_runs_count_with_their_mean(make_trial, curve):
    trials = [make_trial(1), make_trial(2)]
    lucky = [curve((1.0, 100.0)), curve((1.0, 0.0))]
    assert anytime(trials, {1: lucky, 2: [curve((1.0, 60.0))]}).numbers[-1] == 2


def test_without_curves_nobody_leads(make_trial):
    front = anytime([make_trial(1)], {})
    assert front.leaders == ()
    (note,) = anytime_figure(front).layout.annotations
    assert note.text.endswith("yet.")


def test_contenders_are_the_best_at_the_end_and_over_time(make_study, make_trial):
    trials = [
        make_trial(n, training_return=float(n), return_area=float(-n)) for n in range(1, 1001)
    ]
    chosen = {trial.number for trial in contenders(make_study(), trials)}
    assert len(chosen) == MAX_TRIALS
    assert {1, 1000} <= chosen
    assert contenders(make_study(), [make_trial(1, training_return=1.0, feasible=False)]) == []
