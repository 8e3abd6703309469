"""The study loop: ask, run, store; the launcher is the only writer of the database.

fill free cores (what was lost first, then what the agenda says)
-> carry events from the executor to the store -> until the study is complete
-> run its front again on test seeds, if that is asked for
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from sweeper.core.clock import BudgetSpec, Clock, MonotonicClock
from sweeper.core.errors import DatabaseAwayError
from sweeper.core.records import Measurement, RunResult, RunStatus, TrainingStarted
from sweeper.store import launches, queries
from sweeper.store.rows import TrialRow
from sweeper.store.store import Store
from sweeper.study.agenda import Again, Agenda
from sweeper.study.attempts import is_retried, open_jobs
from sweeper.study.claim import Claim
from sweeper.study.confirm import confirmations
from sweeper.study.executor import ClusterLostError, Executor, lost_result
from sweeper.study.importance import importances, is_due
from sweeper.study.known import KnownTrials
from sweeper.study.machines import Machines
from sweeper.study.outage import EVENT, Outage
from sweeper.study.outcome import Requirements
from sweeper.study.progress import LaunchState, seconds_left
from sweeper.study.pruning import Pruning
from sweeper.study.recorder import Job, LiveRun, Recorder
from sweeper.study.remeasure import Remeasurement
from sweeper.study.sampler import Suggestion
from sweeper.study.seeds import run_seed
from sweeper.study.spec import Configuration, ConfirmSpec, LoadedStudy, concurrency_on
from sweeper.study.spool import Spool, is_left, spools
from sweeper.study.warm_start import former_trials
from sweeper.trial.queue import Place, Ticket
from sweeper.trial.spec import TrialSpec

logger = logging.getLogger(__name__)

AHEAD = 3
"""Trials that may wait for more cores than are free, while smaller ones use those; then the cores
are left to fall free."""
FLUSH_SECONDS = 1.0
"""Measurements reach the database at least so often while a run goes on, and a word from
there reaches the launcher."""


class Launcher:
    """Runs a claimed study to its end: `run` or `confirm`, once.

    `place` is this study's in the queue for the machine's cores, where they are shared by turns.
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
        place: Place | None = None,
        clock: Clock | None = None,
        watch: Callable[[LaunchState], None] = lambda _: None,
        poll_seconds: float = 0.5,
    ) -> None:
        self._loaded = loaded
        self._spec = spec = loaded.spec
        self._claim = claim
        self._ref = claim.study
        self._store = store
        self._reader = reader
        self._executor = executor
        self._target = target_trials
        self._place = place
        self._behind: Ticket | None = None
        self._clock = clock or MonotonicClock()
        self._watch = watch
        self._poll_seconds = poll_seconds
        self._study = queries.study(reader, spec.study)
        self._recorder = Recorder(
            store,
            reader,
            claim.study.study_id,
            Requirements.of(spec, self._study.untrained_return),
            spool=Spool.of(self._study, claim.launcher_id),
        )
        self._outage = Outage(self._recorder, store, claim, self._clock)
        self._known = KnownTrials(reader, claim.study.study_id, spec)
        self._live: dict[int, LiveRun] = {}
        self._jobs: deque[Job] = deque()
        self._pruning: Pruning | None = None
        self._typical = loaded.space.resolve(loaded.space.repair({}))
        """A trial as large as most: the file's own, as far as the search has it."""
        self._machines = Machines(store, reader, claim.study.study_id, spec)
        self._remeasurement = Remeasurement()
        self._repeats = 0
        self._untrained_by: int | None = None
        """The run that measures the untrained policy."""
        self._weighed = 0
        """Feasible trials that the importances were last told from."""
        self._is_idle = False
        self._is_stale = self._is_back = False
        """Whether something ended that is not looked at yet; whether an outage did."""
        self.stopping = False

    def stop(self) -> None:
        """Start nothing more, and end what runs at its next deadline check."""
        self.stopping = True
        self._executor.stop()

    def run(self) -> None:
        """Work until the study is complete, or stopped and quiet.

        On KeyboardInterrupt, which is passed on, what runs is given up as INTERRUPTED.
        """
        self._begin()
        if self._spec.pruner.kind == "pareto_rungs":
            self._pruning = Pruning(
                self._spec, self._reader, self._ref.study_id, self._known.trials
            )
        self._machines.recall(self._known.trials)
        self._machines.tell()
        agenda = self.make_agenda()
        with self._giving_up():
            self._work(agenda)
            if self._recorder.away is None:
                with self._outage.noticed():
                    self._weigh(at_last=True)
            if self._spec.confirm is not None and not self.stopping:
                self._confirm(self._spec.confirm, None)

    def confirm(self, plan: ConfirmSpec, budget: BudgetSpec | None = None) -> None:
        """Instead of `run`: run the front again on test seeds, one trial at a time; `budget`
        replaces the trials' own. What was confirmed before is not run again."""
        self._begin()
        self._jobs.clear()  # what the search left open is the search's
        with self._giving_up():
            self._confirm(plan, budget)

    def make_agenda(self) -> Agenda:
        """What chooses the trials."""
        return Agenda(
            self._loaded,
            target_trials=self._target,
            at_once=concurrency_on(self._spec, self._executor.total_cores),
            former=former_trials(self._reader, self._spec),
        )

    def _begin(self) -> None:
        for path in filter(is_left, spools(self._study)):
            count = self._recorder.replay_left(path)
            detail = f"{count} entries waited in the spool of a launcher that died"
            self._store.add_event(EVENT, study_id=self._ref.study_id, detail=detail)
        self._recover()
        self._known.refresh()
        self._judge()  # by requirements that may have changed

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            reason = "its launcher was interrupted and did not wait for it"
            for live in tuple(self._live.values()):
                self._recorder.take(live, lost_result(RunStatus.INTERRUPTED, reason))
            raise
        finally:
            self._recorder.close()
        if (path := self._recorder.spool_path) is not None:
            raise DatabaseAwayError(
                f"{self._recorder.away}; what was measured meanwhile waits in {path}, "
                "and the next launch writes it"
            )

    def _confirm(self, plan: ConfirmSpec, budget: BudgetSpec | None) -> None:
        attempts = launches.last_attempts(self._reader, self._ref.study_id)
        trials = list(self._known.trials.values())
        self._jobs.extend(confirmations(attempts, trials, self._spec, plan, budget))
        self._work(None)

    def _work(self, agenda: Agenda | None) -> None:
        """Work through the jobs, and what the agenda adds to them."""
        began_at = flushed_at = self._clock.now()
        with self._outage.noticed():
            self._heed()
        while True:
            if self._recorder.away is None:
                with self._outage.noticed():
                    self._note_nodes()
                    if not self.stopping:
                        self._fill(agenda, self._clock.now() - began_at)
            self._tell_queue(agenda, self._clock.now() - began_at)
            if not self._live:
                if self.stopping or (self._behind is None and self._recorder.away is None):
                    break
                waiting_since = self._clock.now()
                time.sleep(self._poll_seconds)
                began_at += self._clock.now() - waiting_since  # the study's hours stand still
            for run_id, event in self._executor.events(self._poll_seconds):
                live = self._live[run_id]
                self._recorder.take(live, event)
                if isinstance(event, TrainingStarted):
                    self._learn_untrained(event.untrained_return)
                elif isinstance(event, Measurement):
                    self._prune(live, event)
                elif isinstance(event, RunResult):
                    self._end(live, event)
                    self._is_stale = True
            now = self._clock.now()
            if now - flushed_at >= FLUSH_SECONDS:
                flushed_at = now
                for live in self._live.values():
                    self._recorder.flush(live)
                if self._recorder.away is None:
                    with self._outage.noticed():
                        self._heed()
            if self._outage.is_over(self._live.values()):
                self._is_back = self._is_stale = True
            if self._is_stale and self._recorder.away is None:
                with self._outage.noticed():
                    self._look(searching=agenda is not None)
            self._report(now - began_at)
        self._report(self._clock.now() - began_at)

    def _look(self, *, searching: bool) -> None:
        """See what has changed: what ended, and after an outage what was begun before it and
        never acknowledged."""
        if self._is_back and searching:
            taken = {(job.trial_id, job.spec.seed) for job in self._jobs}
            taken |= {(live.trial_id, live.spec.seed) for live in self._live.values()}
            left = open_jobs(self._reader, self._ref.study_id)
            self._jobs.extend(job for job in left if (job.trial_id, job.spec.seed) not in taken)
        self._known.refresh()
        self._machines.tell()
        self._weigh()
        self._is_stale = self._is_back = self._is_idle = False

    def _weigh(self, *, at_last: bool = False) -> None:
        """Tell how much each parameter matters by now, where that may have changed."""
        trials = list(self._known.trials.values())
        feasible = sum(bool(trial.feasible) for trial in trials)
        if at_last or is_due(feasible, self._weighed):
            self._weighed = feasible
            self._store.add_importances(self._ref.study_id, importances(self._loaded, trials))

    def _recover(self) -> None:
        """Take up what an earlier launcher left: its lost, interrupted and unstarted runs."""
        study_id = self._ref.study_id
        for run_id in self._store.mark_lost(study_id, "its launcher died"):
            self._store.add_event("lost", study_id=study_id, run_id=run_id)
        self._jobs.extend(open_jobs(self._reader, study_id))
        self._repeats = launches.count_runs(self._reader, study_id, "replicate")

    def _judge(self) -> None:
        """Judge what is completed by the requirements as they are now."""
        trials = self._known.trials.values()
        for trial in [trial for trial in trials if trial.status == RunStatus.COMPLETED]:
            self._recorder.judge(trial)
        self._known.refresh()

    def _measures_untrained(self) -> bool:
        """Whether the next run is to measure what an untrained policy returns."""
        known, by = self._recorder.requirements.untrained_return, self._untrained_by
        return self._spec.must_learn and known is None and by is None

    def _learn_untrained(self, value: float | None) -> None:
        """Hold all trials to that from now on, those that have ended as well."""
        if value is None:
            return
        self._recorder.requirements = Requirements.of(self._spec, value)
        with self._outage.noticed():
            self._store.note_untrained_return(self._ref, value)
            self._known.refresh()
            self._judge()

    def _heed(self) -> None:
        """Do as `sweeper stop` asks, which may run anywhere."""
        asked = launches.stop_asked(self._reader, self._ref.study_id, self._claim.launcher_id)
        if asked == "stop_now":
            raise KeyboardInterrupt
        if asked == "stop" and not self.stopping:
            self.stop()

    def _note_nodes(self) -> None:
        """Tell what happened to nodes: to the user, and to the study's events."""
        for notice in self._executor.notices():
            logger.warning("%s", notice.detail)
            self._store.add_event(notice.kind, study_id=self._ref.study_id, detail=notice.detail)

    def _fill(self, agenda: Agenda | None, elapsed_seconds: float) -> None:
        """Start runs while there is work and room for it."""
        concurrency = self._spec.concurrency
        self._behind = None
        while concurrency == "auto" or len(self._live) < concurrency:
            job = self._next_with_room()
            if job is None:
                if agenda is None or self._is_idle or self._is_late(elapsed_seconds):
                    return
                if len(self._jobs) >= AHEAD or not self._fits(self._typical):
                    return  # the later it is asked for, the more the sampler knows
                if not self._ask(agenda):
                    self._is_idle = True  # until something ends
                    return
                continue
            live = self._recorder.start(job)
            self._jobs.remove(job)
            self._live[live.run_id] = live
            untrained = job.seed_kind == "tuning" and self._measures_untrained()
            if untrained:
                self._untrained_by = live.run_id
            self._executor.submit(live.run_id, live.spec, untrained=untrained)

    def _next_with_room(self) -> Job | None:
        """The first job that has room now; runs on test seeds are made alone, in their order."""
        for job in self._jobs:
            must_wait = job.seed_kind == "test" and self._live
            if must_wait or self._behind is not None:
                return None
            if self._fits(job.spec):
                return job
        return None

    def _fits(self, spec: TrialSpec) -> bool:
        """Whether there is room for a run now, and whether it is this study's turn."""
        if not self._executor.fits(spec):
            if not self._live:  # which is all that could make room
                lack = self._executor.lacking(spec) or "room"
                raise ClusterLostError(
                    f"no node is left that has the {lack} for the next trial; launch again to "
                    "continue the study"
                )
            return False
        if self._place is not None:
            self._behind = self._place.waits_for(self._cores() + spec.parallelism.cores)
        return self._behind is None

    def _tell_queue(self, agenda: Agenda | None, elapsed_seconds: float) -> None:
        """Say to the studies behind this one what it leaves them."""
        if self._place is None:
            return
        may_ask = agenda is not None and not self._is_idle and not self._is_late(elapsed_seconds)
        wants_more = not self.stopping and (bool(self._jobs) or may_ask)
        self._place.tell(cores=self._cores(), wanted=self._place.most if wants_more else 0)

    def _cores(self) -> int:
        """Of the runs in progress."""
        return sum(live.spec.parallelism.cores for live in self._live.values())

    def _is_late(self, elapsed_seconds: float) -> bool:
        hours = self._spec.stop.hours
        return hours is not None and elapsed_seconds >= hours * 3600

    def _ask(self, agenda: Agenda) -> bool:
        """Add to the jobs what the agenda says; returns whether it said anything."""
        chosen = agenda.next(
            list(self._known.trials.values()),
            n_repeats=self._repeats,
            repeated=self._known.repeated,
            busy={live.number for live in self._live.values()},
            requirements=self._recorder.requirements,
        )
        if isinstance(chosen, Again):
            self._jobs.append(self._again(self._known.trials[chosen.number]))
        elif chosen is not None:
            self._jobs.append(self._add_trial(chosen))
            self._known.refresh()
        return chosen is not None

    def _again(self, trial: TrialRow) -> Job:
        """Another run of a trial, with another seed."""
        self._repeats += 1
        seed = run_seed(self._spec.trial.seed, trial.number, self._repeats)
        spec = TrialSpec.model_validate_json(trial.config_json)
        again = spec.model_copy(update={"seed": seed})
        return Job(trial.trial_id, trial.number, again, "replicate", 1)

    def _add_trial(self, chosen: Configuration | Suggestion) -> Job:
        seed = run_seed(self._spec.trial.seed, len(self._known.trials) + 1)
        spec = chosen.trial.model_copy(update={"seed": seed})
        sampler = chosen.sampler if isinstance(chosen, Suggestion) else None
        trial = self._store.add_trial(
            self._ref, origin=chosen.origin, sampler=sampler, config=spec, params=chosen.params
        )
        return Job(trial.trial_id, trial.number, spec, "first", 1)

    def _prune(self, live: LiveRun, measurement: Measurement) -> None:
        """End a run that falls behind."""
        behind = self._pruning and self._pruning.behind(live, measurement)
        if behind:
            live.rung = behind.rung
            self._executor.prune(live.run_id, behind.reason)

    def _end(self, live: LiveRun, result: RunResult) -> None:
        del self._live[live.run_id]
        if self._untrained_by == live.run_id:
            self._untrained_by = None
        self._machines.see(self._known.trials[live.number], live, result)
        contention = self._remeasurement.reason(live, result)
        if not self.stopping and is_retried(result.status, live.attempt - live.n_other):
            self._jobs.append(live.again())
        elif not self.stopping and contention is not None:
            self._jobs.append(live.again(contention))

    def _report(self, elapsed_seconds: float) -> None:
        self._watch(
            LaunchState(
                name=self._spec.study,
                trials=tuple(self._known.trials.values()),
                running=tuple(self._live.values()),
                waiting=frozenset(job.number for job in self._jobs),
                target_trials=self._target,
                seconds_left=seconds_left(
                    self._spec,
                    target_trials=self._target,
                    elapsed_seconds=elapsed_seconds,
                    n_begun=len(self._known.trials) + self._repeats,
                    n_waiting=len(self._jobs),
                    running=self._live.values(),
                ),
                elapsed_seconds=elapsed_seconds,
                stopping=self.stopping,
                behind=None if self.stopping else self._behind,
                away=self._recorder.away,
            )
        )
