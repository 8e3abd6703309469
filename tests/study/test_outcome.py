from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.core.records import RunResult, RunStatus
from sweeper.study.executor import lost_result
from sweeper.study.outcome import MIN_UPDATES, verdict, violations
from sweeper.study.spec import ConstraintSpec


def completed(**figures: float) -> RunResult:
    return replace(
        lost_result(RunStatus.LOST, ""), status=RunStatus.COMPLETED, updates=50, **figures
    )


def test_a_run_within_its_constraints_is_feasible() -> None:
    bounds = {"final_return": ConstraintSpec(min=100.0, max=200.0)}
    found = verdict([completed(final_return=150.0)], bounds)
    assert found.violations == {
        "updates.min": -40.0,
        "final_return.min": -50.0,
        "final_return.max": -50.0,
    }
    assert found.feasible


def test_constraints_hold_for_the_mean_over_seeds() -> None:
    bounds = {"final_return": ConstraintSpec(min=100.0)}
    lucky, unlucky = completed(final_return=130.0), completed(final_return=80.0)
    assert verdict([lucky, unlucky], bounds) == (True, {"updates.min": -40, "final_return.min": -5})
    assert not verdict([unlucky, unlucky, lucky], bounds).feasible


def test_a_run_that_never_learned_is_infeasible() -> None:
    assert not verdict([replace(completed(), updates=MIN_UPDATES - 1)], {}).feasible


def test_a_violated_or_unmeasured_constraint_is_infeasible() -> None:
    bounds = {"peak_rss_bytes": ConstraintSpec(max=1e9)}
    for result in (completed(peak_rss_bytes=2e9), completed()):
        assert not verdict([result], bounds).feasible
        assert violations([result], bounds)["peak_rss_bytes.max"] == pytest.approx(1e9)


def test_one_seed_that_fails_is_one_too_many_and_a_lost_run_says_nothing() -> None:
    diverged = replace(completed(), status=RunStatus.DIVERGED)
    lost = lost_result(RunStatus.LOST, "")
    assert not verdict([diverged], {}).feasible
    assert not verdict([completed(), diverged], {}).feasible
    assert verdict([completed(), lost], {}).feasible
    assert not verdict([lost], {}).feasible
