from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from sweeper.report.layouts import (
    Bare,
    Layout,
    LayoutReport,
    Measured,
    layout_figure,
    layout_table,
    recommend,
)
from sweeper.trial.spec import ParallelismSpec

SERIAL = Layout("serial", 8, 0, 1)
SUBPROC = Layout("subproc", 8, 2, 2)
MORE = Layout("subproc", 16, 2, 2)
NATIVE = Layout("gymnasium", 8, 0, 2, "envpool")


def report(*measured: Measured) -> LayoutReport:
    return LayoutReport("X-v0", (Bare(1, (100.0,)), Bare(2, (190.0, 210.0, 200.0))), measured)


def test_the_fastest_layout_is_recommended_by_its_median() -> None:
    one = report(Measured(SERIAL, (90.0, 95.0, 900.0)), Measured(SUBPROC, (150.0, 160.0, 10.0)))
    best = recommend(one)
    assert best.layout == SUBPROC
    assert "150 env steps/s; 75% of what bare environments give on 2 cores" in best.why
    assert "1.58x the best serial (8 envs)" in best.why


def test_of_layouts_about_as_fast_the_one_with_fewest_environments_is_recommended() -> None:
    best = recommend(report(Measured(SUBPROC, (150.0,)), Measured(MORE, (155.0,))))
    assert best.layout == SUBPROC
    assert "within 5% of the fastest (subproc, 2 workers, 16 envs: 155)" in best.why
    assert recommend(report(Measured(SUBPROC, (150.0,)), Measured(MORE, (160.0,)))).layout == MORE


def test_of_those_with_as_many_environments_the_one_with_fewest_cores_is() -> None:
    best = recommend(report(Measured(SUBPROC, (100.0,)), Measured(SERIAL, (99.0,))))
    assert best.layout == SERIAL


def test_training_speed_decides_where_it_was_measured_and_returns_are_told() -> None:
    one = report(
        Measured(SERIAL, (90.0,), (80.0,), (3.0,)), Measured(SUBPROC, (150.0,), (60.0,), (7.0,))
    )
    best = recommend(one)
    assert best.layout == SERIAL
    assert best.why.startswith("80 env steps/s of whole training; 1.33x the best subproc (8 envs)")
    assert "return 3.0 after equal time; the highest was 7.0 (subproc, 2 workers" in best.why


@pytest.mark.parametrize("layout", [SERIAL, SUBPROC, MORE, NATIVE, Layout("subproc", 7, 2, 2)])
def test_the_lines_to_paste_are_the_parallelism_of_a_trial(layout: Layout) -> None:
    trial = YAML(typ="safe", pure=True).load(layout.yaml)["trial"]
    spec = ParallelismSpec.model_validate(trial["parallelism"])
    assert (spec.vec_env, spec.n_envs, spec.n_workers, spec.cores) == (
        layout.vec_env,
        layout.n_envs,
        layout.n_workers,
        layout.cores,
    )
    assert trial.get("env") == ({"vector": {"make": "envpool"}} if layout is NATIVE else None)


def test_the_table_has_bare_environments_first_and_every_layout() -> None:
    one = report(Measured(SERIAL, (90.0, 100.0, 110.0), (80.0,), (-3.0,)))
    table = layout_table(one)
    assert table.rows == (
        ("bare loops", "1", "1", "100", "0%", "50%", "", ""),
        ("bare loops", "2", "2", "200", "10%", "100%", "", ""),
        ("serial", "8", "1", "100", "20%", "50%", "80", "-3.0"),
    )
    assert len(table.head) == 8


def test_the_figure_has_a_line_a_layout_with_its_least_and_most() -> None:
    figure = layout_figure(report(Measured(SUBPROC, (10.0, 30.0, 15.0)), Measured(MORE, (20.0,))))
    (line,) = figure.data
    assert line.name == "subproc, 2 workers"
    assert (tuple(line.x), tuple(line.y)) == ((8, 16), (15.0, 20.0))
    assert (tuple(line.error_y.array), tuple(line.error_y.arrayminus)) == ((15.0, 0), (5.0, 0))
    assert [shape.y0 for shape in figure.layout.shapes] == [100.0, 200.0]


def test_the_figure_of_a_training_has_its_speed_and_return_beside() -> None:
    figure = layout_figure(report(Measured(SERIAL, (9.0,), (8.0,), (-7.0,))))
    assert [trace.y[0] for trace in figure.data] == [9.0, 8.0, -7.0]
    assert [trace.showlegend for trace in figure.data] == [True, False, False]
