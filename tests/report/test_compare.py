from __future__ import annotations

import json

from sweeper.report.compare import curves_figure, differences, measured, phases_figure
from sweeper.report.statistics import Interval


def test_only_what_differs_is_listed_and_the_seed_is_no_difference(make_trial):
    def config(seed, n_envs, kind):
        return json.dumps(
            {"seed": seed, "parallelism": {"n_envs": n_envs, "cores": 1}, "optimizer": kind}
        )

    trials = [
        make_trial(1, config_json=config(1, 4, {"kind": "adam", "eps": 1e-5})),
        make_trial(2, config_json=config(2, 8, {"kind": "sgd"})),
    ]
    assert {row.path: row.values for row in differences(trials)} == {
        "parallelism.n_envs": ("4", "8"),
        "optimizer.kind": ("adam", "sgd"),
        "optimizer.eps": ("1e-5", "–"),
    }


def test_best_value_is_marked_by_the_direction_of_its_metric(make_study, make_trial):
    trials = [
        make_trial(1, final_return=5.0, core_seconds=10.0),
        make_trial(2, final_return=9.0, core_seconds=20.0),
        make_trial(3, final_return=None),
    ]
    spreads = {2: {"final_return": Interval(9.0, 8.0, 9.5)}}
    rows = {row.metric: row for row in measured(make_study(), trials, spreads)}
    assert rows["final_return"].best == (False, True, False)
    assert rows["final_return"].values == ("5", "9", "–")
    assert rows["final_return"].intervals == ("", "8 to 9.5", "")
    assert rows["core_seconds"].best == (True, False, False)
    assert "steps_per_second" not in rows


def test_curves_are_told_apart_by_more_than_colour(make_trial, make_point):
    trials = [make_trial(n) for n in (1, 2)]
    curves = {
        n: [[make_point(elapsed_seconds=t, training_return=n * t) for t in (1.0, 2.0)]]
        for n in (1, 2)
    }
    figure = curves_figure(trials, curves)
    assert [trace.name for trace in figure.data] == ["trial 1", "trial 2"]
    assert figure.data[0].line.dash != figure.data[1].line.dash
    assert curves_figure(trials, {}).layout.annotations[0].text.endswith("yet.")


def test_phases_are_shares_that_sum_to_one(make_trial):
    trial = make_trial(
        1,
        elapsed_seconds=10.0,
        rollout_seconds=6.0,
        inference_seconds=2.0,
        env_wait_seconds=3.0,
        update_seconds=3.0,
    )
    figure = phases_figure([trial, make_trial(2)])
    assert {trace.name: trace.x[0] for trace in figure.data} == {
        "inference": 0.2,
        "env wait": 0.3,
        "bookkeeping": 0.1,
        "update": 0.3,
        "other": 0.1,
    }
