"""Which runs are made again: by themselves, within bounds, or because `sweeper retry` asks.

docs/running.md has this as a table, with the reasons.
"""

from __future__ import annotations

from sqlalchemy import Engine

from sweeper.core.records import RunStatus
from sweeper.store import launches, queries
from sweeper.store.rows import AttemptRow, TrialRow
from sweeper.study.recorder import Job
from sweeper.trial.spec import TrialSpec

MAX_ATTEMPTS = {RunStatus.LOST: 3, RunStatus.INTERRUPTED: 100, RunStatus.OOM: 2}
"""Attempts at a run, by how the last one ended; what is not here is not retried by itself."""
ON_REQUEST = (RunStatus.LOST, RunStatus.OOM, RunStatus.ERROR, RunStatus.TIMEOUT)
"""What `sweeper retry` may ask for: what another machine, or a mended one, may do better."""
NEVER = {
    RunStatus.COMPLETED: "has its result",
    RunStatus.PRUNED: "was given up by the search",
    RunStatus.DIVERGED: "would diverge again, with the same seed",
    RunStatus.INTERRUPTED: "is run again by the next launch as it is",
    RunStatus.RUNNING: "has not ended",
    RunStatus.QUEUED: "has not begun",
}
"""What `sweeper retry` does not ask for, and why not."""
MOST_ATTEMPTS = 10
"""At one run with one seed, however often they are asked for."""
ASKED = "asked for by `sweeper retry`"


def is_retried(status: RunStatus, n_attempts: int) -> bool:
    """Whether a run is made again by itself whose last one of so many attempts ended so."""
    return n_attempts < MAX_ATTEMPTS.get(status, 0)


def is_open(last: AttemptRow) -> bool:
    """Whether another attempt is to be made."""
    return last.is_asked or why_again(last) is None


def why_again(last: AttemptRow) -> str | None:
    """What is to be said of the next attempt; None where it is made by itself."""
    return None if is_retried(RunStatus(last.status), last.n_attempts) else ASKED


def open_jobs(reader: Engine, study_id: int) -> list[Job]:
    """What earlier launches left to be done of the search, by number of trial: what was never
    begun, what is made again by itself, and what was asked for."""
    trials = {trial.trial_id: trial for trial in queries.trials(reader, study_id)}
    attempts = launches.last_attempts(reader, study_id)
    last = [attempt for attempt in attempts if attempt.seed_kind == "tuning"]
    begun = {attempt.trial_id for attempt in last}
    jobs = [
        Job(key, trial.number, _spec(trial), "first", 1)
        for key, trial in trials.items()
        if key not in begun
    ]
    for attempt in filter(is_open, last):
        spec = _spec(trials[attempt.trial_id]).model_copy(update={"seed": attempt.seed})
        why, again = why_again(attempt), attempt.attempt + 1
        jobs.append(Job(attempt.trial_id, attempt.number, spec, "retry", again, why=why))
    return sorted(jobs, key=lambda job: job.number)


def _spec(trial: TrialRow) -> TrialSpec:
    return TrialSpec.model_validate_json(trial.config_json)
