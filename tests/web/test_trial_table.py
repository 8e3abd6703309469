from __future__ import annotations

import pytest

from sweeper.store.queries import open_reader, study, trials
from sweeper.web.trial_table import PAGE_ROWS, Box, cell_text, columns_of, select


@pytest.fixture(scope="module")
def rows(filled_url):
    engine = open_reader(filled_url)
    row = study(engine, "cartpole")
    yield row, trials(engine, row.study_id)
    engine.dispose()


def numbers(table):
    return [trial.number for trial in table.trials]


def test_best_of_the_first_objective_comes_first_and_missing_values_last(rows):
    assert numbers(select(*rows)) == [2, 3, 1, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("number", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("-number", [8, 7, 6, 5, 4, 3, 2, 1]),
        ("steps_per_second", [1, 4, 2, 3, 5, 6, 7, 8]),
        ("-parallelism.n_envs", [6, 5, 3, 4, 7, 2, 8, 1]),
        ("-n_envs", [6, 5, 3, 4, 7, 2, 8, 1]),
    ],
)
def test_any_column_sorts(rows, sort, expected):
    assert numbers(select(*rows, sort=sort)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {1, 2, 3, 4, 5, 6, 7, 8}),
        ("n_envs=8", {4, 7}),
        ("parallelism.n_envs>=16 final_return>0", {3, 5}),
        ("status=completed steps_per_second<12000", {1, 4}),
        ("baseline", {1}),
        ("NaN", {6}),
        ("infeasible", {5}),
        ("status!=COMPLETED", {6, 7, 8}),
        ("final_return>many", set()),
    ],
)
def test_every_term_of_a_filter_must_hold(rows, text, expected):
    table = select(*rows, filter_text=text)
    assert set(numbers(table)) == expected
    assert table.problem is None


def test_unknown_column_is_named_with_the_nearest(rows):
    assert select(*rows, filter_text="n_env=8").problem == (
        "there is no column 'n_env'; did you mean 'n_envs'?"
    )
    assert "'nothing'" in select(*rows, sort="-nothing").problem


def test_box_keeps_the_points_within(rows):
    box = Box("steps_per_second", "final_return", (9_000.0, 12_000.0), (250.0, 500.0))
    assert set(numbers(select(*rows, box=box))) == {1, 2}


def test_long_table_is_cut_into_pages(rows):
    row, few = rows
    many = few * 30
    table = select(row, many, page=3)
    assert (table.n_matching, table.page, table.n_pages) == (240, 3, 3)
    assert len(table.trials) == 240 - 2 * PAGE_ROWS
    assert select(row, many, page=99).page == 3


def test_columns_are_objectives_then_searched_parameters(rows):
    assert [column.title for column in columns_of(*rows)] == [
        "trial",
        "status",
        "final return",
        "training speed",
        "learning_rate",
        "n_envs",
        "origin",
    ]


def test_cells_are_rounded_and_absent_ones_dashed(rows):
    _, trials = rows
    assert cell_text(trials[1], "steps_per_second") == "12,000"
    assert cell_text(trials[1], "algorithm.optimizer.learning_rate") == "0.001"
    assert cell_text(trials[7], "final_return") == "–"
