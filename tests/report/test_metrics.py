from __future__ import annotations

from dataclasses import fields

import pytest

from sweeper.report.metrics import (
    METRICS,
    format_bytes,
    format_number,
    format_param,
    format_seconds,
    short_names,
)
from sweeper.store.rows import TrialRow
from sweeper.store.views import OBJECTIVES


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (500.0, "500"),
        (487.35, "487"),
        (24349.0, "24,300"),
        (999.6, "1,000"),
        (0.0003, "0.0003"),
        (0.00025, "0.00025"),
        (1e-5, "1e-5"),
        (-1.234, "−1.23"),
        (12.0, "12"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_three_significant_digits(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8.21, "8.21 s"), (660.0, "11 min"), (7500.0, "2 h 5 min"), (90000.0, "1 d 1 h"), (None, "–")],
)
def test_durations_are_read_aloud(seconds, text):
    assert format_seconds(seconds) == text


def test_bytes_are_decimal():
    assert [format_bytes(n) for n in (12, 4.1e8, 1.94e9)] == ["12 B", "410 MB", "1.94 GB"]


def test_whole_parameters_stay_whole():
    assert [format_param(v) for v in (65536, True, 3e-4, "adam", None)] == [
        "65536",
        "yes",
        "0.0003",
        "adam",
        "null",
    ]


def test_short_names_tell_paths_apart():
    paths = ["a.n_envs", "a.optimizer.kind", "a.schedule.kind", "b.eps", "c.eps"]
    assert list(short_names(paths).values()) == [
        "n_envs",
        "optimizer.kind",
        "schedule.kind",
        "b.eps",
        "c.eps",
    ]


def test_every_possible_objective_can_be_an_axis():
    assert set(OBJECTIVES) <= set(METRICS)


def test_every_metric_is_a_column_of_a_trial():
    assert set(METRICS) <= {field.name for field in fields(TrialRow)}
