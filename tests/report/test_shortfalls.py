"""Why a trial stands off the front, in words."""

from __future__ import annotations

import pytest

from sweeper.report.shortfalls import shortfalls


@pytest.mark.parametrize(
    ("figures", "violations", "words"),
    [
        (
            {"final_return": 9.4},
            {"updates.min": -3.0, "final_return.untrained": 12.9},
            "Its final return of 9.4 does not beat the untrained policy's 22.3.",
        ),
        (
            {"updates": 4.0},
            {"updates.min": 6.0},
            "It made 4 updates, fewer than 10: it hardly learned.",
        ),
        (
            {"steps_per_second": 120.0},
            {"steps_per_second.min": 380.0},
            "Its training speed of 120 is below the study's 500.",
        ),
        ({}, {"peak_rss_bytes.max": 1e9}, "Its peak memory was not measured."),
        ({}, {"updates.min": -3.0}, "It failed with another of its seeds."),
    ],
)
def test_a_requirement_that_is_violated_is_told(make_study, make_trial, figures, violations, words):
    study = make_study(constraints={"steps_per_second": {"min": 500.0}}, untrained_return=22.3)
    assert shortfalls(study, make_trial(1, feasible=False, **figures), violations) == [words]


def test_a_feasible_trial_falls_short_of_nothing(make_study, make_trial):
    assert shortfalls(make_study(), make_trial(1), {"updates.min": -3.0}) == []
