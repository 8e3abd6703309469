"""How far a launch is, and how long it will take as far as its budgets tell."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sweeper.store.rows import TrialRow
from sweeper.study.recorder import LiveRun
from sweeper.study.spec import StudySpec, most_runs
from sweeper.trial.queue import Ticket


@dataclass(frozen=True, slots=True)
class LaunchState:
    """The study at one moment, for whoever watches."""

    name: str
    trials: tuple[TrialRow, ...]
    running: tuple[LiveRun, ...]
    waiting: frozenset[int]
    """Numbers of trials that are to be run, or run again."""
    target_trials: int | None
    seconds_left: float | None
    """Estimate; None before anything is known."""
    elapsed_seconds: float
    stopping: bool
    behind: Ticket | None = None
    """The study whose turn it is to have the machine's cores."""
    away: str | None = None
    """Why the database takes nothing now; what is measured is spooled."""


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
