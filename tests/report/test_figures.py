from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from sweeper.report.curves import curve_figure, phase_figure, phase_seconds
from sweeper.report.figures import Certainty, pareto_figure
from sweeper.report.history import hypervolume_figure
from sweeper.report.statistics import Interval


@pytest.fixture
def trials(make_trial):
    def values(r, s):
        return {"final_return": r, "steps_per_second": s}

    return [
        make_trial(1, **values(200.0, 9_000.0), origin="baseline"),
        make_trial(2, **values(500.0, 12_000.0)),
        make_trial(3, **values(300.0, 24_000.0)),
        make_trial(4, **values(600.0, 30_000.0), feasible=False),
        make_trial(5, **values(10.0, 20_000.0), status="DIVERGED"),
        make_trial(6, **values(50.0, 15_000.0), status="LOST"),
        make_trial(7, status="RUNNING", feasible=None, ended_at=None),
        make_trial(8, status="DIVERGED", feasible=None),
    ]


def traces(figure):
    return {trace.name.split(" (")[0]: trace for trace in figure.data}


def test_front_is_a_step_line_through_the_non_dominated_points(make_study, trials):
    line = traces(pareto_figure(make_study(), trials))["front"]
    assert list(line.x) == [12_000.0, 24_000.0]
    assert list(line.y) == [500.0, 300.0]
    assert [point[0] for point in line.customdata] == [2, 3]
    assert list(line.text) == ["#2", "#3"]
    assert line.line.shape == "vh"


def test_no_two_classes_share_a_shape(make_study, trials):
    figure = pareto_figure(make_study(), trials)
    marks = {trace.name: (trace.marker.symbol, trace.marker.size) for trace in figure.data}
    assert len(marks) == 6
    assert len(set(marks.values())) == 6


def test_baseline_wears_a_ring_whatever_else_it_is(make_study, trials):
    drawn = traces(pareto_figure(make_study(), trials))
    assert drawn["baseline"].marker.symbol == "circle-open"
    assert (list(drawn["baseline"].x), list(drawn["baseline"].y)) == ([9_000.0], [200.0])
    assert [list(point) for point in drawn["feasible"].customdata] == [[1]]


def test_trial_that_ended_without_a_value_stands_above_the_plot(make_study, trials):
    figure = pareto_figure(make_study(), trials)
    numbers = {
        trace.yaxis: [number for (number,) in trace.customdata]
        for trace in figure.data
        if trace.name == "diverged (2)"
    }
    assert numbers == {None: [5], "y2": [8]}
    drawn = [list(trace.customdata) for trace in figure.data if trace.customdata is not None]
    assert {number for trace in drawn for (number,) in trace} == {1, 2, 3, 4, 5, 6, 8}


def test_axes_carry_units_and_follow_the_choice(make_study, trials):
    figure = pareto_figure(make_study(), trials, log=("x",))
    assert figure.layout.xaxis.title.text == "training speed (env steps/s)"
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "linear")
    other = pareto_figure(make_study(), trials, x="final_return", y="steps_per_second")
    assert other.layout.uirevision != figure.layout.uirevision


def test_minimized_axis_steps_the_other_way(make_study, make_trial):
    study = make_study(objectives={"final_return": "maximize", "core_seconds": "minimize"})
    rows = [
        make_trial(1, final_return=5.0, core_seconds=10.0),
        make_trial(2, final_return=9.0, core_seconds=20.0),
        make_trial(3, final_return=4.0, core_seconds=30.0),
    ]
    line = traces(pareto_figure(study, rows))["front"]
    assert list(line.x) == [10.0, 20.0]
    assert line.line.shape == "hv"


def test_hover_names_the_configuration_and_escapes_it(make_study, make_trial):
    trial = make_trial(
        2,
        final_return=500.0,
        steps_per_second=12_345.0,
        params={"env.kwargs.map": "<a href='x'>", "algorithm.optimizer.learning_rate": 3e-4},
    )
    text = pareto_figure(make_study(), [trial]).data[0].hovertext[0]
    assert "trial 2" in text
    assert "learning_rate = 0.0003" in text
    assert "12,300" in text
    assert "<a" not in text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_empty_study_says_so_in_words(make_study, theme):
    for figure in (
        pareto_figure(make_study(), [], theme=theme),
        hypervolume_figure(make_study(), [], theme=theme),
        curve_figure({}, theme=theme),
    ):
        (note,) = figure.layout.annotations
        assert note.text.endswith("yet.")
        assert figure.layout.xaxis.visible is False  # there is nothing to measure
        json.loads(figure.to_json())


def test_several_runs_are_faint_under_their_mean(make_measurement):
    def curve(offset):
        return [
            make_measurement(elapsed_seconds=t, env_steps=int(100 * t), training_return=t + offset)
            for t in (1.0, 2.0, 4.0)
        ]

    figure = curve_figure({"seed 0": curve(0.0), "seed 1": curve(2.0)}, deadline=4.0)
    *single, band, average = figure.data
    assert band.fill == "toself"
    # Two curves apart by 2: the interval of their mean reaches from the one to the other.
    assert max(band.y) - min(band.y) == pytest.approx(5.0)
    assert all(trace.opacity < 1 for trace in single)
    assert np.allclose(average.y, average.x + 1.0)
    assert figure.layout.annotations[0].text == "deadline"


def test_runs_with_test_seeds_are_told_from_the_search_by_dash_and_color(make_measurement):
    def curve(offset):
        return [
            make_measurement(elapsed_seconds=t, env_steps=int(t), training_return=t + offset)
            for t in (1.0, 2.0)
        ]

    runs = {"seed 0": curve(0.0), "seed 1": curve(2.0), "test seed 7": curve(5.0)}
    drawn = {trace.name: trace for trace in curve_figure(runs, test={"test seed 7"}).data}
    assert list(drawn) == [
        "seed 0",
        "seed 1",
        "95% interval over seeds",
        "mean of 2 runs",
        "test seed 7",
    ]
    assert list(drawn["mean of 2 runs"].y) == pytest.approx(list(drawn["mean of 2 runs"].x + 1.0))
    tested, searched = drawn["test seed 7"], drawn["seed 0"]
    assert (tested.line.dash, searched.line.dash) == ("dash", "solid")
    assert tested.line.color != searched.line.color
    assert tested.showlegend


def test_rungs_and_the_deadline_are_drawn_across_the_curve(make_measurement):
    rows = [make_measurement(elapsed_seconds=1.0, env_steps=1, training_return=1.0)]
    figure = curve_figure({"seed 0": rows}, deadline=9.0, rungs=(1.0, 3.0))
    assert [shape.x0 for shape in figure.layout.shapes] == [1.0, 3.0, 9.0]
    assert [note.text for note in figure.layout.annotations] == ["rung 1", "rung 2", "deadline"]


def test_hypervolume_is_drawn_over_trials_too(make_study, trials):
    figure = hypervolume_figure(make_study(), trials, x="trials")
    assert list(figure.data[0].x) == [1, 2, 3]
    assert figure.layout.xaxis.title.text == "trial"
    over_time = hypervolume_figure(make_study(), trials)
    assert list(over_time.data[0].y)[-1] == list(figure.data[0].y)[-1]


def test_pruned_trials_are_told_from_those_that_failed(make_study, trials, make_trial):
    drawn = traces(pareto_figure(make_study(), [*trials, make_trial(9, status="PRUNED")]))
    pruned, failed = drawn["pruned"], drawn["error or lost"]
    assert (pruned.name, pruned.marker.symbol != failed.marker.symbol) == ("pruned (1)", True)


def test_points_are_thinned_once_they_cannot_be_told_apart(make_study, make_trial):
    trials = [
        make_trial(n, final_return=float(n % 97), steps_per_second=float(n % 89))
        for n in range(1, 4001)
    ]
    drawn = traces(pareto_figure(make_study(), trials))
    assert drawn["feasible"].name.startswith("feasible (3,9")
    assert len(drawn["feasible"].x) < 4000
    assert len(drawn["front"].x) >= 1


def test_point_is_the_fainter_the_less_likely_it_is_on_the_front(make_study, trials):
    certainty = Certainty({2: 1.0, 3: 0.5}, {2: {"final_return": Interval(500.0, 450.0, 520.0)}})
    drawn = traces(pareto_figure(make_study(), trials, certainty=certainty))
    assert list(drawn["front"].marker.opacity) == [1.0, pytest.approx(0.7)]
    assert list(drawn["feasible"].marker.opacity) == [pytest.approx(0.4)]
    assert list(drawn["front"].error_y.array) == [20.0, 0.0]
    assert list(drawn["front"].error_y.arrayminus) == [50.0, 0.0]
    assert "(450 to 520)" in drawn["front"].hovertext[0]
    assert "P(non-dominated): 50%" in drawn["front"].hovertext[1]


def test_contended_trial_has_a_shape_of_its_own_and_no_place_on_the_front(make_study, trials):
    crowded = dataclasses.replace(trials[1], contended=True)
    drawn = traces(pareto_figure(make_study(), [trials[0], crowded, *trials[2:]]))
    assert drawn["contended"].marker.symbol == "diamond-open"
    assert [n for (n,) in drawn["front"].customdata] == [3]


def test_where_all_trials_are_contended_the_front_says_so(make_study, trials):
    crowded = [dataclasses.replace(trial, contended=True) for trial in trials]
    figure = pareto_figure(make_study(), crowded)
    quiet = pareto_figure(make_study(), trials)
    names = [trace.name for trace in figure.data]
    assert any(name and name.startswith("front, contended (") for name in names)
    assert [len(t.x) for t in figure.data if t.name and t.name.startswith("front")] == [
        len(t.x) for t in quiet.data if t.name and t.name.startswith("front")
    ]


def test_curve_leaves_out_measurements_before_the_first_episode(make_measurement):
    rows = [
        make_measurement(elapsed_seconds=1.0, env_steps=10),
        make_measurement(elapsed_seconds=2.0, env_steps=20, training_return=9.0),
    ]
    (line,) = curve_figure({"seed 0": rows}, x="steps").data
    assert (list(line.x), list(line.y)) == ([20.0], [9.0])


def test_phases_sum_to_the_elapsed_seconds(make_run):
    run = make_run(
        rollout_seconds=6.0,
        inference_seconds=2.0,
        env_wait_seconds=3.0,
        update_seconds=3.5,
        optimizer_seconds=1.0,
        normalize_seconds=0.0,
        other_seconds=0.5,
    )
    assert sum(phase_seconds(run).values()) == pytest.approx(10.0)
    figure = phase_figure(run)
    assert [trace.name for trace in figure.data][:2] == ["inference 20%", "env wait 30%"]
    assert "normalize" not in " ".join(trace.name for trace in figure.data)
