from __future__ import annotations

from dataclasses import replace

from sweeper.core.records import RunResult, RunStatus
from sweeper.study.executor import lost_result
from sweeper.study.outcome import MIN_UPDATES, is_feasible, violations
from sweeper.study.spec import ConstraintSpec


def completed(**figures: float) -> RunResult:
    return replace(
        lost_result(RunStatus.LOST, ""), status=RunStatus.COMPLETED, updates=50, **figures
    )


def test_a_run_within_its_constraints_is_feasible() -> None:
    found = violations(
        completed(final_return=150.0), {"final_return": ConstraintSpec(min=100.0, max=200.0)}
    )
    assert found == {"updates.min": -40.0, "final_return.min": -50.0, "final_return.max": -50.0}
    assert is_feasible(completed(), found)


def test_a_run_that_never_learned_is_infeasible() -> None:
    result = replace(completed(), updates=MIN_UPDATES - 1)
    assert not is_feasible(result, violations(result, {}))


def test_a_violated_or_unmeasured_constraint_is_infeasible() -> None:
    bounds = {"peak_rss_bytes": ConstraintSpec(max=1e9)}
    for result in (completed(peak_rss_bytes=2e9), completed()):
        assert not is_feasible(result, violations(result, bounds))


def test_only_a_completed_run_is_feasible() -> None:
    result = replace(completed(), status=RunStatus.DIVERGED)
    assert not is_feasible(result, violations(result, {}))
