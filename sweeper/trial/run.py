"""`run_trial`: the one way to run a trial, a generator of what happens in it.

The command line prints what it yields, executors carry it to the launcher. The budget runs
from the first step of training to the deadline; set-up and evaluation are off it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from sweeper.core.clock import Clock, Deadline, MonotonicClock, StopSignal
from sweeper.core.errors import (
    DivergedError,
    EnvLostError,
    EnvMemoryError,
    EnvTimeoutError,
    LimitError,
    SweeperError,
)
from sweeper.core.records import (
    Evaluation,
    Measurement,
    PhaseSeconds,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
    WaitingForCores,
)
from sweeper.core.timing import PhaseTimer
from sweeper.envs.make import describe, make_vec_env
from sweeper.envs.normalize import ObservationNormalizer, RewardNormalizer
from sweeper.envs.vec_env import VecEnv
from sweeper.envs.wrapped import MeteredVecEnv, NormalizedVecEnv
from sweeper.rl.build import build_learner
from sweeper.rl.custom import discount
from sweeper.rl.learner import Learner, UpdateStatistics
from sweeper.trial.checkpoint import Checkpoint
from sweeper.trial.contention import CONTENDED_SHARE
from sweeper.trial.cores import CoreLease, CoresTaken, try_lease
from sweeper.trial.curve import Curve
from sweeper.trial.evaluate import evaluate
from sweeper.trial.host import this_host
from sweeper.trial.pinning import CAN_PIN, pinned_to
from sweeper.trial.spec import TrialSpec
from sweeper.trial.usage import Cost, UsageMeter
from sweeper.trial.watchdog import Watchdog

MEASUREMENTS = 300
"""At most so many measurements a run, evenly over its progress."""
ASK_SECONDS = 0.1
"""How often to ask for cores that are taken."""


def run_trial(
    spec: TrialSpec,
    *,
    clock: Clock | None = None,
    stop: StopSignal | None = None,
    watchdog: Watchdog | None = None,
    resume: Checkpoint | None = None,
    checkpoint: Path | None = None,
    untrained: bool = False,
) -> Iterator[TrialEvent]:
    """Train and evaluate one configuration.

    Yields WaitingForCores (while others hold what it needs), TrainingStarted, Measurements,
    Evaluations and, last and whatever happens, one RunResult: a trial that fails is a result
    with a reason. `stop` ends training at the next deadline check, with status PRUNED or
    INTERRUPTED. A `watchdog` ends this process if the trial does not end by itself.

    `resume` is where to begin: what it has spent of the budget is spent, its environments
    begin new episodes, and the result counts what is added. Training that ends, stopped or
    not, is written to `checkpoint`. With `untrained` the policy is evaluated before it is
    trained as well, off the budget.
    """
    trial = _Trial(spec, clock or MonotonicClock(), stop or StopSignal(), watchdog)
    trial.resume, trial.checkpoint, trial.untrained = resume, checkpoint, untrained
    try:
        yield from trial.events()
    except Exception as error:  # noqa: BLE001 - whatever an environment or a library may raise
        yield trial.result(_status_of(error), _reason(error))


class _Trial:
    def __init__(
        self, spec: TrialSpec, clock: Clock, stop: StopSignal, watchdog: Watchdog | None
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._stop = stop
        self._watchdog = watchdog
        self.resume: Checkpoint | None = None
        self.checkpoint: Path | None = None
        self.untrained = False
        self._born_at = clock.now()
        self._timer = PhaseTimer(clock)
        self._setup_seconds: float | None = None
        self._deadline: Deadline | None = None
        self._elapsed_seconds: float | None = None
        self._overshoot_seconds = 0.0
        self._vec_env: MeteredVecEnv | None = None
        self._observation: ObservationNormalizer | None = None
        self._reward: RewardNormalizer | None = None
        self._meter: UsageMeter | None = None
        self._cost: Cost | None = None
        self._cpus: tuple[int, ...] = ()
        self._updates = 0
        self._curve = Curve(None)
        self._evaluations: list[Evaluation] = []
        self._evaluate_seconds = 0.0

    def events(self) -> Iterator[TrialEvent]:
        spec = self._spec
        with ExitStack() as stack:
            lease = yield from self._lease()
            if lease is None:
                yield self.result(RunStatus.INTERRUPTED, "asked to stop while it had no cores")
                return
            stack.callback(lease.release)
            self._born_at = self._clock.now()
            if self._watchdog is not None:
                stack.callback(self._watchdog.disarm)
            limits = spec.limits
            too_long = f"set-up took longer than limits.setup_seconds = {limits.setup_seconds:g}"
            self._limit(limits.setup_seconds, too_long)
            self._cpus = lease.cpus
            host = this_host()  # before pinning: the host has more cores than the lease
            stack.enter_context(pinned_to(lease.cpus))
            torch.set_num_threads(spec.parallelism.torch_threads)
            stack.enter_context(threadpool_limits(spec.parallelism.torch_threads))
            self._vec_env = metered = stack.enter_context(
                MeteredVecEnv(self._make_vec_env(), self._timer)
            )
            self._curve = Curve(describe(spec.env).reward_threshold)
            learner = build_learner(
                spec.algorithm, self._normalized(metered), seed=self._seed, timer=self._timer
            )
            if self.resume is not None:
                self.resume.restore(learner, observation=self._observation, reward=self._reward)
            self._setup_seconds = self._clock.now() - self._born_at
            if self._setup_seconds > limits.setup_seconds:
                raise LimitError(too_long)
            untrained = self._untrained_return(learner) if self.untrained else None
            self._meter = UsageMeter(self._cpus if CAN_PIN else (), cores=spec.parallelism.cores)
            self._meter.begin()
            yield TrainingStarted(self._setup_seconds, metered.n_workers, host, untrained)
            yield from self._train(learner, metered)
            metered.close()
            if self.checkpoint is not None:
                self._save(learner, self.checkpoint)
            was_cut = self._stop.requested  # who asks later is too late
            if not was_cut:
                yield from self._evaluate(learner)
        if not was_cut:
            yield self.result(RunStatus.COMPLETED, None)
        elif self._stop.pruned is not None:
            yield self.result(RunStatus.PRUNED, self._stop.pruned)
        else:
            yield self.result(RunStatus.INTERRUPTED, "asked to stop before its budget was spent")

    def _lease(self) -> Generator[TrialEvent, None, CoreLease | None]:
        """Wait for cores; None when asked to stop before there were any."""
        told = ""
        while isinstance(lease := try_lease(self._spec.parallelism.cores), CoresTaken):
            if self._stop.requested:
                return None
            if str(lease) != told:
                told = str(lease)
                yield WaitingForCores(told)
            time.sleep(ASK_SECONDS)
        return lease

    def _limit(self, seconds: float | None, reason: str) -> None:
        """Have the watchdog end what takes longer than `seconds` from now."""
        if self._watchdog is None:
            return
        if seconds is None:
            self._watchdog.disarm()
        else:
            self._watchdog.arm(seconds, reason)

    def _make_vec_env(self) -> VecEnv:
        parallelism = self._spec.parallelism
        return make_vec_env(
            self._spec.env,
            vec_env=parallelism.vec_env,
            n_envs=parallelism.n_envs,
            envs_per_worker=parallelism.resolved_envs_per_worker,
            start_method=parallelism.start_method,
            n_groups=2 if parallelism.overlap else 1,
            seed=self._seed,
            cpus=self._cpus,
        )

    @property
    def _seed(self) -> int:
        """Of environments and noise: not the streams that a resumed trial has seen before."""
        return self._spec.seed + (self.resume.env_steps if self.resume else 0)

    def _save(self, learner: Learner, path: Path) -> None:
        assert self._deadline is not None
        Checkpoint.of(
            self._spec, self._deadline, learner, observation=self._observation, reward=self._reward
        ).save(path)

    def _normalized(self, vec_env: MeteredVecEnv) -> VecEnv:
        """The VecEnv that the learner sees."""
        env = self._spec.env
        if env.normalize_observation:
            self._observation = ObservationNormalizer(vec_env.single_observation_space)
        if env.normalize_reward:
            self._reward = RewardNormalizer(vec_env.n_envs, gamma=discount(self._spec.algorithm))
        if self._observation is None and self._reward is None:
            return vec_env
        return NormalizedVecEnv(
            vec_env, observation=self._observation, reward=self._reward, timer=self._timer
        )

    def _train(self, learner: Learner, vec_env: MeteredVecEnv) -> Iterator[Measurement]:
        """Collect and update until the deadline; the budget is what passes in here."""
        assert self._meter is not None
        budget, grace = self._spec.budget, self._spec.limits.grace_seconds
        self._limit(
            None if budget.seconds is None else budget.seconds + grace,
            f"training did not end within limits.grace_seconds = {grace:g} after its "
            f"budget of {budget}",
        )
        self._deadline = deadline = Deadline(self._clock, budget, stop=self._stop)
        if self.resume is not None:
            deadline.spent_env_steps = self.resume.env_steps
            deadline.spent_seconds = self.resume.elapsed_seconds
        vec_env.deadline = deadline
        self._timer.start()
        try:
            measured = -1  # which of the MEASUREMENTS equal parts of the budget
            statistics: UpdateStatistics | None = None
            for statistics in learner.train(deadline):
                self._updates += 1
                episodes = vec_env.statistics
                self._curve.add(
                    deadline.elapsed_seconds, episodes.mean_return, is_full=episodes.is_full
                )
                part = int(deadline.progress * MEASUREMENTS)
                if part > measured:
                    measured = part
                    yield self._measure(deadline, statistics)
                    statistics = None
                if deadline.expired:
                    break
            if statistics is not None:  # the last update is always among them
                yield self._measure(deadline, statistics)
        finally:
            self._timer.stop()
            self._elapsed_seconds = deadline.elapsed_seconds
            self._overshoot_seconds = deadline.overshoot_seconds
            self._cost = self._meter.end()

    def _measure(self, deadline: Deadline, statistics: UpdateStatistics) -> Measurement:
        assert self._meter is not None
        assert self._vec_env is not None
        usage, elapsed = self._meter.read(), deadline.elapsed_seconds
        cpu_seconds = self._meter.cpu_seconds_so_far(usage)
        episodes = self._vec_env.statistics
        return Measurement(
            elapsed_seconds=elapsed,
            progress=deadline.progress,
            env_steps=deadline.env_steps,
            updates=self._updates,
            episodes=episodes.episodes,
            training_return=episodes.mean_return,
            episode_length=episodes.mean_length,
            steps_per_second=_ratio(deadline.env_steps, elapsed) or 0.0,
            cpu_utilization=_ratio(cpu_seconds, elapsed * self._spec.parallelism.cores),
            rss_bytes=usage.rss_bytes,
            **statistics._asdict(),
        )

    def _evaluate(self, learner: Learner) -> Iterator[Evaluation]:
        began = self._clock.now()
        self._limit_evaluation(times=2)
        for deterministic in (True, False):
            episodes = self._episodes(learner, deterministic=deterministic)
            self._evaluations.extend(episodes)
            yield from episodes
        self._evaluate_seconds = self._clock.now() - began

    def _untrained_return(self, learner: Learner) -> float:
        """Of the objective's policy, as it is before any training."""
        self._limit_evaluation(times=1)
        is_deterministic = self._spec.evaluation.policy == "deterministic"
        episodes = self._episodes(learner, deterministic=is_deterministic)
        return float(np.mean([episode.episode_return for episode in episodes]))

    def _limit_evaluation(self, *, times: int) -> None:
        spec = self._spec
        seconds = times * spec.evaluation.max_seconds + spec.limits.grace_seconds
        self._limit(seconds, f"evaluation did not end within {seconds:g} s")

    def _episodes(self, learner: Learner, *, deterministic: bool) -> list[Evaluation]:
        spec = self._spec
        return evaluate(
            learner,
            spec.env,
            spec.evaluation,
            deterministic=deterministic,
            normalizer=self._observation,
            clock=self._clock,
            vec_env="subproc" if spec.parallelism.vec_env == "subproc" else "serial",
            start_method=spec.parallelism.start_method,
        )

    def result(self, status: RunStatus, reason: str | None) -> RunResult:
        elapsed = self._elapsed_seconds or 0.0
        env_steps = self._deadline.env_steps if self._deadline else 0
        statistics = self._vec_env.statistics if self._vec_env else None
        deterministic = self._mean_return(deterministic=True)
        stochastic = self._mean_return(deterministic=False)
        cost, core_seconds = self._cost, elapsed * self._spec.parallelism.cores
        foreign = cost.foreign_cpu_share if cost else None
        return RunResult(
            status=status,
            reason=reason,
            setup_seconds=(
                self._clock.now() - self._born_at
                if self._setup_seconds is None
                else self._setup_seconds
            ),
            elapsed_seconds=elapsed,
            overshoot_seconds=self._overshoot_seconds,
            env_steps=env_steps,
            episodes=statistics.episodes if statistics else 0,
            updates=self._updates,
            steps_per_second=_ratio(env_steps, elapsed),
            final_return=(
                deterministic if self._spec.evaluation.policy == "deterministic" else stochastic
            ),
            final_return_stochastic=stochastic,
            training_return=statistics.mean_return if statistics else None,
            seconds_to_threshold=self._curve.seconds_to_threshold,
            return_area=self._curve.mean,
            phases=self._phases(),
            evaluate_seconds=self._evaluate_seconds,
            cpu_seconds=cost.cpu_seconds if cost else None,
            core_seconds=core_seconds,
            cpu_utilization=_ratio(cost.cpu_seconds, core_seconds) if cost else None,
            peak_rss_bytes=self._meter.peak_rss_bytes if self._meter else None,
            involuntary_switches=cost.involuntary_switches if cost else None,
            worker_busy_share=self._worker_busy_share(),
            foreign_cpu_share=foreign,
            contended=None if foreign is None else foreign > CONTENDED_SHARE,
            gpu_utilization=cost.gpu_utilization if cost else None,
            gpu_memory_bytes=cost.gpu_memory_bytes if cost else None,
            leased_cores=self._cpus,
        )

    def _mean_return(self, *, deterministic: bool) -> float | None:
        returns = [e.episode_return for e in self._evaluations if e.deterministic is deterministic]
        return float(np.mean(returns)) if returns else None

    def _worker_busy_share(self) -> float | None:
        """Of the core time that workers could have used while the learner waited for them."""
        n_workers = self._spec.parallelism.n_workers
        if self._cost is None or not n_workers:
            return None
        at_once = min(n_workers, len(self._cpus))
        share = _ratio(self._cost.worker_cpu_seconds, self._timer.own_seconds("env_wait") * at_once)
        return None if share is None else min(1.0, share)

    def _phases(self) -> PhaseSeconds:
        own = self._timer.own_seconds
        return PhaseSeconds(
            inference=own("inference"),
            env_wait=own("env_wait"),
            bookkeeping=own("bookkeeping"),
            gradient=own("gradient"),
            optimizer=own("optimizer"),
            normalize=own("normalize"),
            other=own(PhaseTimer.ROOT),
        )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _status_of(error: Exception) -> RunStatus:
    match error:
        case DivergedError():
            return RunStatus.DIVERGED
        case EnvTimeoutError() | LimitError():
            return RunStatus.TIMEOUT
        case EnvLostError():
            return RunStatus.LOST
        case MemoryError() | EnvMemoryError():
            return RunStatus.OOM
        case _:
            return RunStatus.ERROR


def _reason(error: Exception) -> str:
    if isinstance(error, SweeperError):
        return str(error)
    return f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
