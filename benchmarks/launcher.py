"""How many trials a second the launcher keeps up with, when trials take no time at all: ask, store
and tell, for 500 at once, on one core.

    python benchmarks/launcher.py            1,000 random trials, then 100 by TPE
    python benchmarks/launcher.py --quick
    python benchmarks/launcher.py --profile  and where the time goes

Judge by the CPU's seconds where the machine is not yours alone; those of the clock are what a
quiet one takes, waiting for the disk included.
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from harness import options_of, parser, print_host
from record_search import SEARCH, study

from sweeper.core.records import (
    Evaluation,
    Measurement,
    PhaseSeconds,
    RunStatus,
    TrainingStarted,
    TrialEvent,
)
from sweeper.store import queries
from sweeper.store.store import Store
from sweeper.study.claim import claim_study
from sweeper.study.document import document_of, dump
from sweeper.study.executor import Notice, RunEvent, lost_result
from sweeper.study.launch import Launcher
from sweeper.study.progress import LaunchState
from sweeper.study.resources import Need, Resources, lacking
from sweeper.study.spec import study_of
from sweeper.trial.host import this_host
from sweeper.trial.spec import TrialSpec

AT_ONCE = 500
TOGETHER = 25
"""Trials that end between two looks of the launcher, as many do on a large cluster."""
BUDGET_SECONDS = 10.0


class InstantExecutor:
    """Trials that have ended before they are looked at, the eldest first."""

    total_cores = AT_ONCE

    def __init__(self) -> None:
        self._running: deque[tuple[int, TrialSpec]] = deque()
        self.free_at_looks: list[int] = []
        """Places that were empty whenever the launcher had done all that it could, until the last
        trial began."""
        self._free: list[int] = []

    def fits(self, spec: TrialSpec) -> bool:
        """See Executor."""
        return len(self._running) + spec.parallelism.cores <= self.total_cores

    def lacking(self, spec: TrialSpec) -> Resources | None:
        """See Executor."""
        return lacking(Need(spec.parallelism.cores), [Resources(self.total_cores)])

    def submit(self, run_id: int, spec: TrialSpec, *, untrained: bool = False) -> None:
        """See Executor."""
        del untrained
        self._running.append((run_id, spec))
        self.free_at_looks += self._free
        self._free.clear()

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        """See Executor."""
        del timeout_seconds
        self._free.append(self.total_cores - len(self._running))
        ended = [self._running.popleft() for _ in range(min(TOGETHER, len(self._running)))]
        return [RunEvent(run_id, event) for run_id, spec in ended for event in outcome(spec)]

    def notices(self) -> list[Notice]:
        """See Executor."""
        return []

    def stop(self) -> None:
        """See Executor."""

    def prune(self, run_id: int, reason: str) -> None:
        """See Executor."""

    def close(self) -> None:
        """See Executor."""


def outcome(spec: TrialSpec) -> list[TrialEvent]:
    """What a trial of a fair length says: 30 measurements, 40 episodes, an end."""
    random = np.random.default_rng(spec.seed)
    final, speed = float(random.normal(300.0, 80.0)), float(random.lognormal(9.0, 0.5))
    curve = [
        Measurement(
            elapsed_seconds=BUDGET_SECONDS * part,
            progress=part,
            env_steps=int(speed * BUDGET_SECONDS * part),
            updates=int(100 * part),
            episodes=int(200 * part),
            training_return=final * part,
            episode_length=200.0,
            steps_per_second=speed,
        )
        for part in np.linspace(0.0, 1.0, 31)[1:].tolist()
    ]
    episodes = [
        Evaluation(i, 1000 + i, deterministic, final, 200, truncated=False)
        for deterministic in (True, False)
        for i in range(20)
    ]
    result = replace(
        lost_result(RunStatus.LOST, ""),
        status=RunStatus.COMPLETED,
        reason=None,
        elapsed_seconds=BUDGET_SECONDS,
        env_steps=int(speed * BUDGET_SECONDS),
        updates=100,
        final_return=final,
        training_return=final,
        steps_per_second=speed,
        phases=PhaseSeconds(inference=4.0, env_wait=2.0, gradient=4.0),
        contended=False,
    )
    return [TrainingStarted(1.0, 8, this_host()), *curve, *episodes, result]


def launch(url: str, *, sampler: str, trials: int) -> tuple[int, float, float, list[int]]:
    """Continue the study to so many trials; returns (runs, seconds, CPU seconds, free places)."""
    data = {
        **study("CartPole-v1", budget=BUDGET_SECONDS, trials=trials, seed=0),
        "sampler": {"kind": sampler, "time_limit": 1e6},
        "search": SEARCH,
    }
    loaded = study_of(document_of(dump(data), "benchmark"))
    executor = InstantExecutor()
    states: deque[LaunchState] = deque(maxlen=1)
    with (
        Store.open(url) as store,
        claim_study(store, loaded, target_trials=trials, new_version=True) as claim,
    ):
        reader = queries.open_reader(url)
        study_id = claim.study.study_id
        launcher = Launcher(
            loaded, claim, store, reader, executor, target_trials=trials, watch=states.append
        )
        before = len(queries.study_runs(reader, study_id))
        began_at, cpu_began_at = time.perf_counter(), time.process_time()
        launcher.run()
        seconds = time.perf_counter() - began_at
        cpu_seconds = time.process_time() - cpu_began_at
        runs = len(queries.study_runs(reader, study_id)) - before
        reader.dispose()
    assert len(states[0].trials) == trials
    assert all(trial.status == RunStatus.COMPLETED for trial in states[0].trials)
    return runs, seconds, cpu_seconds, executor.free_at_looks


def measure(url: str, what: str, *, sampler: str, trials: int) -> None:
    """Print how a launch went."""
    runs, seconds, cpu_seconds, free = launch(url, sampler=sampler, trials=trials)
    kept = sum(n == 0 for n in free)
    print(
        f"{what}: {runs} runs, {runs / seconds:,.0f}/s by the clock, "
        f"{runs / cpu_seconds:,.0f}/s by the CPU; all {AT_ONCE} places were full at {kept} of "
        f"{len(free)} looks"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--profile", action="store_true", help="print where the time goes")
    arguments = options.parse_args()
    quick = options_of(arguments).quick
    print_host()
    stored, more = (60, 20) if quick else (1_000, 100)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'launcher.db'}"
        run = profiled if arguments.profile else call
        run(lambda: measure(url, "random", sampler="random", trials=stored))
        what = f"tpe at {stored:,} stored trials"
        run(lambda: measure(url, what, sampler="tpe", trials=stored + more))


def call(work: Callable[[], None]) -> None:
    work()


def profiled(work: Callable[[], None]) -> None:
    """Print what took most of the time, with what it called."""
    with cProfile.Profile() as profile:
        work()
    pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
