"""How long a launch will take, as far as its budgets tell."""

from __future__ import annotations

from collections.abc import Collection

from sweeper.study.recorder import LiveRun
from sweeper.study.spec import StudySpec, most_runs


def seconds_left(
    spec: StudySpec,
    *,
    target_trials: int | None,
    elapsed_seconds: float,
    n_begun: int,
    n_waiting: int,
    running: Collection[LiveRun],
) -> float | None:
    """What is left of the runs' budgets, shared by as many as run at once, and of the hours.

    n_begun: runs that were begun, ended or not; n_waiting: runs that are to be made for certain.
    """
    bounds: list[float] = []
    if spec.stop.hours is not None:
        bounds.append(max(0.0, spec.stop.hours * 3600 - elapsed_seconds))
    budget = spec.trial.budget.seconds
    if target_trials is not None and budget is not None and running:
        to_come = max(0, most_runs(spec, target_trials) - n_begun) + n_waiting
        under_way = sum(1.0 - (live.latest.progress if live.latest else 0.0) for live in running)
        bounds.append((to_come + under_way) * budget / len(running))
    return min(bounds, default=None)
