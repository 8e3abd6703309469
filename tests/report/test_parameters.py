from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sweeper.report.parameters import MAX_LINES, importance_figure, parallel
from sweeper.store.rows import ImportanceRow


def test_axes_suit_their_values(make_study, make_trial):
    trials = [
        make_trial(
            n,
            final_return=10.0 * n,
            steps_per_second=100.0,
            params={"rate": 10.0**-n, "n": 2**n, "kind": kind, "same": 1},
        )
        for n, kind in ((1, "adam"), (2, "sgd"), (3, "adam"))
    ]
    record = parallel(make_study(), trials, front={3}, chosen={1, 3})
    axes = {axis.key: axis for axis in record.axes}
    assert list(axes) == ["rate", "n", "kind", "final_return", "steps_per_second"]
    assert (axes["rate"].log, axes["n"].log) == (True, False)
    assert axes["kind"].ticks == ((0.25, "adam"), (0.75, "sgd"))
    assert [label for _, label in axes["n"].ticks] == ["2", "4", "8"]
    lines = {line.number: line for line in record.lines}
    assert lines[2].positions[0] == pytest.approx(0.5)
    assert lines[2].positions[2] == 0.75
    assert [line.number for line in record.lines][-1] == 3, "the front is drawn on top"
    assert (lines[2].chosen, lines[3].front) == (False, True)


def test_missing_parameter_leaves_a_gap(make_study, make_trial):
    trials = [
        make_trial(1, final_return=1.0, params={"a": 1.0, "b": 5.0}),
        make_trial(2, final_return=2.0, params={"a": 2.0}),
        make_trial(3, final_return=2.0, params={"a": 2.0, "b": 7.0}),
    ]
    study = make_study(objectives={"final_return": "maximize"})
    lines = {line.number: line for line in parallel(study, trials, front=(), chosen=()).lines}
    assert lines[2].positions[1] is None


def test_many_trials_are_thinned_but_never_the_front(make_study, make_trial):
    trials = [
        make_trial(n, final_return=float(n), steps_per_second=1.0, params={"a": n})
        for n in range(1, 3001)
    ]
    record = parallel(make_study(), trials, front={1500, 2999}, chosen=set())
    assert len(record.lines) <= MAX_LINES + 2
    assert {line.number for line in record.lines if line.front} == {1500, 2999}
    assert record.n_trials == 3000


def test_most_important_parameter_stands_on_top():
    at = datetime(2030, 1, 1, tzinfo=UTC)
    rows = [
        ImportanceRow(at, "final_return", "a.rate", 0.7),
        ImportanceRow(at, "final_return", "a.n_envs", 0.3),
        ImportanceRow(at, "steps_per_second", "a.n_envs", 0.9),
    ]
    figure = importance_figure(rows)
    assert [trace.name for trace in figure.data] == ["final return", "training speed"]
    assert list(figure.data[0].y) == ["rate", "n_envs"]  # from the bottom up
    assert list(figure.data[1].x) == [0.0, 0.9]
