from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.core.records import RunResult, RunStatus
from sweeper.study.executor import lost_result
from sweeper.study.outcome import MIN_UPDATES, Requirements, verdict, violations
from sweeper.study.spec import ConstraintSpec


def completed(**figures: float) -> RunResult:
    return replace(
        lost_result(RunStatus.LOST, ""), status=RunStatus.COMPLETED, updates=50, **figures
    )


def test_a_run_within_its_constraints_is_feasible() -> None:
    bounds = {"final_return": ConstraintSpec(min=100.0, max=200.0)}
    found = verdict([completed(final_return=150.0)], Requirements(bounds))
    assert found.violations == {
        "updates.min": -40.0,
        "final_return.untrained": 0.0,
        "final_return.min": -50.0,
        "final_return.max": -50.0,
    }
    assert found.feasible


def test_constraints_hold_for_the_mean_over_seeds() -> None:
    bounds = {"final_return": ConstraintSpec(min=100.0)}
    lucky, unlucky = completed(final_return=130.0), completed(final_return=80.0)
    found = verdict([lucky, unlucky], Requirements(bounds))
    assert (found.feasible, found.violations["final_return.min"]) == (True, -5)
    assert not verdict([unlucky, unlucky, lucky], Requirements(bounds)).feasible


def test_a_run_that_never_learned_is_infeasible() -> None:
    hardly = [replace(completed(), updates=MIN_UPDATES - 1)]
    assert not verdict(hardly, Requirements()).feasible
    assert verdict(hardly, Requirements(must_learn=False)) == (True, {})


@pytest.mark.parametrize(("final_return", "feasible"), [(9.0, False), (10.0, False), (10.1, True)])
def test_a_run_that_is_no_better_than_an_untrained_policy_is_infeasible(
    final_return: float, feasible: bool
) -> None:
    requirements = Requirements(untrained_return=10.0)
    assert verdict([completed(final_return=final_return)], requirements).feasible is feasible


def test_an_untrained_policy_is_beaten_by_the_mean_over_seeds() -> None:
    requirements = Requirements(untrained_return=10.0)
    lucky, unlucky = completed(final_return=14.0), completed(final_return=8.0)
    assert verdict([lucky, unlucky], requirements).feasible
    assert not verdict([lucky, unlucky, unlucky], requirements).feasible


def test_a_violated_or_unmeasured_constraint_is_infeasible() -> None:
    bounds = {"peak_rss_bytes": ConstraintSpec(max=1e9)}
    for result in (completed(peak_rss_bytes=2e9), completed()):
        requirements = Requirements(bounds)
        assert not verdict([result], requirements).feasible
        assert violations([result], requirements)["peak_rss_bytes.max"] == pytest.approx(1e9)


def test_one_seed_that_fails_is_one_too_many_and_a_lost_run_says_nothing() -> None:
    diverged = replace(completed(), status=RunStatus.DIVERGED)
    lost = lost_result(RunStatus.LOST, "")
    assert not verdict([diverged], Requirements()).feasible
    assert not verdict([completed(), diverged], Requirements()).feasible
    assert verdict([completed(), lost], Requirements()).feasible
    assert not verdict([lost], Requirements()).feasible
