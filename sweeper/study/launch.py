"""The study loop: ask, run, store; the launcher is the only writer of the database.

fill free cores (what was lost first, then the file's own trials, then the sampler's)
-> carry events from the executor to the store -> until the study is complete
"""

from __future__ import annotations

import os
import socket
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Engine

from sweeper.core.clock import Clock, MonotonicClock
from sweeper.core.errors import InputError
from sweeper.core.records import (
    Evaluation,
    HostRecord,
    Measurement,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
)
from sweeper.store import queries
from sweeper.store.queries import RunRow, TrialRow
from sweeper.store.store import Store, StudyRef
from sweeper.study.executor import Executor
from sweeper.study.outcome import is_feasible, past_trials, violations
from sweeper.study.sampler import Sampler, Suggestion
from sweeper.study.spec import Configuration, LoadedStudy, concurrency_on
from sweeper.trial.spec import TrialSpec

MAX_ATTEMPTS = {RunStatus.LOST: 3, RunStatus.INTERRUPTED: 100, RunStatus.OOM: 2}
"""Attempts at a run, by how the last one ended; what is not here is not retried."""
EVENTS = {"first": "started", "replicate": "replicated", "retry": "retried"}
"""Kind of run -> the event that its start is."""
LEASE_SECONDS = 30.0
FLUSH_SECONDS = 1.0
"""Measurements reach the database at least so often while a run goes on."""


@dataclass(slots=True)
class LiveRun:
    """A run in progress, as the launcher knows it."""

    run_id: int
    trial_id: int
    number: int
    spec: TrialSpec
    kind: str
    attempt: int
    latest: Measurement | None = None
    host: HostRecord | None = None
    unwritten: list[Measurement] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)


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


@dataclass(frozen=True, slots=True)
class _Job:
    """A run that is to be made."""

    trial_id: int
    number: int
    spec: TrialSpec
    kind: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A study that this launcher alone may work on."""

    study: StudyRef
    launcher_id: str


@contextmanager
def claim_study(
    store: Store, loaded: LoadedStudy, *, target_trials: int | None, new_version: bool = False
) -> Iterator[Claim]:
    """Make or find the study of a file, and hold its lease.

    Raises StudyChangedError for a file that differs from the stored one (unless it may
    make a `new_version`), LauncherBusyError while another launcher works on the study.
    """
    spec, launcher_id = loaded.spec, uuid.uuid4().hex
    study = store.ensure_study(
        spec.study,
        env=spec.trial.env.name,
        spec_yaml=loaded.text,
        spec_sha256=loaded.sha256,
        objectives={str(metric): d for metric, d in spec.objectives.items()},
        constraints={
            metric: bounds.model_dump(exclude_none=True)
            for metric, bounds in spec.constraints.items()
        },
        budget=spec.trial.budget,
        target_trials=target_trials,
        new_version=new_version,
    )
    store.acquire_lease(
        study.study_id,
        launcher_id=launcher_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        seconds=LEASE_SECONDS,
    )
    try:
        yield Claim(study, launcher_id)
    finally:
        store.release_lease(study.study_id, launcher_id=launcher_id)


class Launcher:
    """Runs a claimed study to its end; `run` may be called once.

    `watch` is called with the state about once a `poll_seconds`, and whenever a run ends.
    """

    def __init__(
        self,
        loaded: LoadedStudy,
        claim: Claim,
        store: Store,
        reader: Engine,
        executor: Executor,
        *,
        target_trials: int | None,
        clock: Clock | None = None,
        watch: Callable[[LaunchState], None] = lambda _: None,
        poll_seconds: float = 0.25,
    ) -> None:
        self._loaded = loaded
        self._claim = claim
        self._ref = claim.study
        self._store = store
        self._reader = reader
        self._executor = executor
        self._target = target_trials
        self._clock = clock or MonotonicClock()
        self._watch = watch
        self._poll_seconds = poll_seconds
        self._live: dict[int, LiveRun] = {}
        self._jobs: deque[_Job] = deque()
        self.stopping = False
        self._trials: list[TrialRow] = []
        self._repeats = 0

    def stop(self) -> None:
        """Start nothing more, and end what runs at its next deadline check."""
        self.stopping = True
        self._executor.stop()

    def run(self) -> None:
        """Work until the study is complete, or stopped and quiet."""
        self._check_fits()
        self._recover()
        sampler = self._sampler()
        began_at = renewed_at = flushed_at = self._clock.now()
        self._refresh()
        while True:
            if not self.stopping:
                self._fill(sampler, self._clock.now() - began_at)
            if not self._live:
                break
            ended = False
            for run_id, event in self._executor.events(self._poll_seconds):
                ended |= self._take(self._live[run_id], event)
            now = self._clock.now()
            if now - flushed_at >= FLUSH_SECONDS:
                flushed_at = now
                for live in self._live.values():
                    self._flush(live)
            if now - renewed_at >= LEASE_SECONDS / 3:
                renewed_at = now
                self._store.renew_lease(
                    self._ref.study_id, launcher_id=self._claim.launcher_id, seconds=LEASE_SECONDS
                )
            if ended:
                self._refresh()
            self._report(now - began_at)
        self._report(self._clock.now() - began_at)

    def _recover(self) -> None:
        """Take up what an earlier launcher left: its lost, interrupted and unstarted runs."""
        for run_id in self._store.mark_lost(self._ref.study_id, "its launcher died"):
            self._store.add_event("lost", study_id=self._ref.study_id, run_id=run_id)
        for trial in queries.trials(self._reader, self._ref.study_id):
            spec = TrialSpec.model_validate_json(trial.config_json)
            runs = queries.runs(self._reader, trial.trial_id)
            status = RunStatus(trial.status)
            if not runs:
                self._jobs.append(_Job(trial.trial_id, trial.number, spec, "first", 1))
            elif status.is_retried and (job := self._retry(trial, spec, runs[-1])):
                self._jobs.append(job)
        self._repeats = queries.count_runs(self._reader, self._ref.study_id, "replicate")

    def _retry(self, trial: TrialRow, spec: TrialSpec, last: RunRow) -> _Job | None:
        if last.attempt >= MAX_ATTEMPTS[RunStatus(last.status)]:
            return None
        return _Job(trial.trial_id, trial.number, spec, "retry", last.attempt + 1)

    def _fill(self, sampler: Sampler, elapsed_seconds: float) -> None:
        """Start runs while there is work and room for it."""
        concurrency = self._loaded.spec.concurrency
        while concurrency == "auto" or len(self._live) < concurrency:
            if not self._jobs:
                if not self._wants_more(elapsed_seconds):
                    return
                if not self._executor.fits(self._loaded.spec.trial):
                    return  # the later it is asked for, the more the sampler knows
                self._jobs.append(self._new_trial(sampler))
                self._refresh()
            if not self._executor.fits(self._jobs[0].spec):
                return
            self._start(self._jobs.popleft())

    def _wants_more(self, elapsed_seconds: float) -> bool:
        hours = self._loaded.spec.stop.hours
        if hours is not None and elapsed_seconds >= hours * 3600:
            return False
        return self._target is None or len(self._trials) + self._repeats < self._target

    def _new_trial(self, sampler: Sampler) -> _Job:
        named = sum(trial.origin in ("baseline", "enqueued") for trial in self._trials)
        if named < len(self._loaded.queue):
            return self._add_trial(self._loaded.queue[named], sampler=None)
        past = past_trials(self._trials, self._loaded.spec)
        suggestion = sampler.ask(past, repeats=self._repeats)
        if suggestion.duplicate_of is not None:
            return self._replicate(suggestion.trial, suggestion.duplicate_of)
        return self._add_trial(suggestion, sampler=suggestion.sampler)

    def _replicate(self, spec: TrialSpec, number: int) -> _Job:
        """Another run, with another seed, of a trial that was suggested again."""
        self._repeats += 1
        seed = _run_seed(spec.seed, number, self._repeats)
        trial_id = next(trial.trial_id for trial in self._trials if trial.number == number)
        return _Job(trial_id, number, spec.model_copy(update={"seed": seed}), "replicate", 1)

    def _add_trial(self, chosen: Configuration | Suggestion, *, sampler: str | None) -> _Job:
        seed = _run_seed(chosen.trial.seed, len(self._trials) + 1)
        spec = chosen.trial.model_copy(update={"seed": seed})
        trial = self._store.add_trial(
            self._ref, origin=chosen.origin, sampler=sampler, config=spec, params=chosen.params
        )
        self._store.add_event("asked", study_id=self._ref.study_id, trial_id=trial.trial_id)
        return _Job(trial.trial_id, trial.number, spec, "first", 1)

    def _start(self, job: _Job) -> None:
        run_id = self._store.add_run(
            job.trial_id,
            kind=job.kind,
            attempt=job.attempt,
            seed=job.spec.seed,
            seed_kind="tuning",
            host=None,
            budget=job.spec.budget,
        )
        self._store.add_event(
            EVENTS[job.kind],
            study_id=self._ref.study_id,
            trial_id=job.trial_id,
            run_id=run_id,
        )
        self._live[run_id] = LiveRun(
            run_id, job.trial_id, job.number, job.spec, job.kind, job.attempt
        )
        self._executor.submit(run_id, job.spec)

    def _take(self, live: LiveRun, event: TrialEvent) -> bool:
        """Carry one event to the store; returns whether the run has ended."""
        match event:
            case TrainingStarted():
                live.host = event.host
            case Measurement():
                live.latest = event
                live.unwritten.append(event)
            case Evaluation():
                live.evaluations.append(event)
            case RunResult():
                self._finish(live, event)
                return True
        return False

    def _finish(self, live: LiveRun, result: RunResult) -> None:
        self._flush(live)
        found = violations(result, self._loaded.spec.constraints)
        self._store.finish_run(
            live.run_id,
            result,
            feasible=is_feasible(result, found),
            evaluations=live.evaluations,
            violations=found,
            host=live.host,
        )
        self._store.add_event(
            result.status.value.lower(),
            study_id=self._ref.study_id,
            trial_id=live.trial_id,
            run_id=live.run_id,
            detail=None if result.reason is None else result.reason.splitlines()[0],
        )
        del self._live[live.run_id]
        if self.stopping or not result.status.is_retried:
            return
        if live.attempt < MAX_ATTEMPTS[result.status]:
            self._jobs.append(
                _Job(live.trial_id, live.number, live.spec, "retry", live.attempt + 1)
            )

    def _flush(self, live: LiveRun) -> None:
        self._store.add_measurements(live.run_id, live.unwritten)
        live.unwritten.clear()

    def _refresh(self) -> None:
        self._trials = queries.trials(self._reader, self._ref.study_id)

    def _report(self, elapsed_seconds: float) -> None:
        self._watch(
            LaunchState(
                name=self._loaded.spec.study,
                trials=tuple(self._trials),
                running=tuple(self._live.values()),
                waiting=frozenset(job.number for job in self._jobs),
                target_trials=self._target,
                seconds_left=self._seconds_left(elapsed_seconds),
                elapsed_seconds=elapsed_seconds,
                stopping=self.stopping,
            )
        )

    def _seconds_left(self, elapsed_seconds: float) -> float | None:
        """What is left of the trials' budgets, shared by as many as run at once."""
        spec = self._loaded.spec
        bounds: list[float] = []
        if spec.stop.hours is not None:
            bounds.append(max(0.0, spec.stop.hours * 3600 - elapsed_seconds))
        budget = spec.trial.budget.seconds
        if self._target is not None and budget is not None and self._live:
            waiting = max(0, self._target - len(self._trials)) + len(self._jobs)
            running = sum(
                1.0 - (live.latest.progress if live.latest else 0.0) for live in self._live.values()
            )
            bounds.append((waiting + running) * budget / len(self._live))
        return min(bounds, default=None)

    def _sampler(self) -> Sampler:
        spec = self._loaded.spec
        return Sampler(
            self._loaded.space,
            dict(spec.objectives),
            spec.sampler,
            n_startup=self._startup_trials(),
        )

    def _startup_trials(self) -> int:
        """Trials before the sampler learns: enough to learn from, at most a third of all."""
        at_once = concurrency_on(self._loaded.spec, self._executor.total_cores)
        wanted = max(10, 2 * at_once)
        return wanted if self._target is None else min(wanted, self._target // 3)

    def _check_fits(self) -> None:
        cores = self._loaded.spec.trial.parallelism.cores
        if cores > self._executor.total_cores:
            raise InputError(
                f"parallelism.cores: {cores} asked for, "
                f"{self._executor.total_cores} there are to run on"
            )


def _run_seed(base: int, *indices: int) -> int:
    """A seed of its own for every trial (and replicate) of a study, unlike its neighbours'."""
    return int(np.random.SeedSequence([base, *indices]).generate_state(1)[0] >> 1)
