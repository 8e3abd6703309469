"""How far a launch is, in numbers and words."""

from __future__ import annotations

from sweeper.core.records import RunStatus
from sweeper.report.metrics import METRICS, format_metric, format_seconds, value_of
from sweeper.report.pareto import front
from sweeper.store.rows import TrialRow
from sweeper.study.progress import LaunchState
from sweeper.study.spec import StudySpec
from sweeper.trial.queue import Ticket


def ended_trials(state: LaunchState) -> list[TrialRow]:
    """Trials that are done with, however they ended: what will be tried again is not."""
    unfinished = state.waiting | {run.number for run in state.running}
    return [
        trial
        for trial in state.trials
        if trial.status == RunStatus.COMPLETED
        or (RunStatus(trial.status).is_final and trial.number not in unfinished)
    ]


def best_trials(state: LaunchState, spec: StudySpec) -> tuple[TrialRow, ...]:
    """The front so far, among the trials that had the study's budget."""
    budget = (spec.trial.budget.seconds, spec.trial.budget.env_steps)
    return front(
        [t for t in state.trials if (t.budget_seconds, t.budget_env_steps) == budget],
        {str(metric): direction for metric, direction in spec.objectives.items()},
    )


def share_done(state: LaunchState) -> float | None:
    """Of all trials, running ones by their progress; None when there is no number of trials."""
    if not state.target_trials:
        return None
    ended = {trial.number for trial in ended_trials(state)}
    part = sum(
        run.latest.progress
        for run in state.running
        if run.latest and run.number not in ended  # another seed of a trial that is done
    )
    return min(1.0, (len(ended) + part) / state.target_trials)


def summary(spec: StudySpec) -> str:
    """What is launched."""
    return f"{spec.study}: trials of {spec.trial.budget} on {spec.trial.env.name}"


def outcome(trial: TrialRow, spec: StudySpec) -> str:
    """What a trial reached, or why it did not."""
    if trial.status != RunStatus.COMPLETED:
        return f"{trial.status} {trial.reason or ''}".rstrip()
    figures = ", ".join(
        f"{METRICS[metric].title} {format_metric(metric, value_of(trial, metric))}"
        + (f" {METRICS[metric].unit}" if METRICS[metric].unit else "")
        for metric in spec.objectives
    )
    return figures if trial.feasible else f"{figures}, infeasible"


def behind(ticket: Ticket) -> str:
    """Whose turn it is to have the machine's cores."""
    return f"behind study {ticket.study!r} (process {ticket.pid}), whose turn it is"


def away(reason: str) -> str:
    """That the database takes nothing now."""
    return (
        f"{reason}; what is measured is kept on this machine, and no trial begins until it is back"
    )


def time_left(state: LaunchState) -> str:
    """An estimate for people; empty when there is none."""
    if state.seconds_left is None or state.seconds_left < 1 or not state.running:
        return ""
    return f"about {format_seconds(round(state.seconds_left))} left"
