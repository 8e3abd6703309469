"""How far a study is, whether anybody works on it, and what to do about that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sweeper.core.records import RunStatus
from sweeper.store.rows import LauncherRow, StudyRow, TrialRow

FINISHED = tuple(status.value for status in RunStatus if status.is_final)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a study is."""

    finished: int
    target: int | None
    running: int
    """RUNNING ones whose launcher lives."""
    abandoned: int
    """RUNNING ones that a dead launcher left; the next launch makes them LOST."""
    others: tuple[tuple[str, int], ...]
    """(status in words, number of trials) of what is neither COMPLETED nor running."""
    seconds_left: float | None
    """At the pace so far; None when nothing runs or there is no target."""


def progress(
    study: StudyRow, trials: Sequence[TrialRow], *, now: datetime, alive: bool
) -> Progress:
    """Counts by status, and the time left at the pace so far. alive: whether its launcher is."""
    counts = study.status_counts
    finished = sum(counts.get(status, 0) for status in FINISHED)
    running = counts.get("RUNNING", 0) if alive else 0
    left = None
    if study.target_trials and running and finished and trials:
        began = min(trial.asked_at for trial in trials)
        pace = (now - began).total_seconds() / finished
        left = max(0.0, pace * (study.target_trials - finished))
    others = (*(s for s in FINISHED if s != "COMPLETED"), "QUEUED")
    return Progress(
        finished=finished,
        target=study.target_trials,
        running=running,
        abandoned=counts.get("RUNNING", 0) - running,
        others=tuple((s.lower(), counts[s]) for s in others if counts.get(s)),
        seconds_left=left,
    )


def launch_state(reached: Progress, held_by: LauncherRow | None, *, alive: bool) -> str:
    """Whether anybody works on the study."""
    if alive:
        return "running"
    if reached.target and reached.finished >= reached.target and not reached.abandoned:
        return "finished"
    return "its launcher died" if held_by or reached.abandoned else "stopped"


def next_step(reached: Progress, held_by: LauncherRow | None, *, alive: bool) -> str:
    """What to do about the state; empty where there is nothing to do."""
    if alive or launch_state(reached, held_by, alive=alive) == "finished":
        return ""
    who = f" (process {held_by.pid} on {held_by.host})" if held_by else ""
    words = "Type `sweeper launch` with its file again to continue it"
    if held_by or reached.abandoned:
        return f"Its launcher{who} is gone. {words}; what it left running is made up for."
    return f"Nobody works on it now. {words}."
