"""Whether a trial is as fast among neighbors as alone: pinned and leased, and as usual.

    python benchmarks/interference.py
    python benchmarks/interference.py --seconds 10 --html interference.html

The same training runs alone and then on every core at once (`cores: 1` each), in three ways:

  sweeper     as a study runs it: leased, pinned, one torch thread
  as usual    the same job with neither: the kernel places it, torch takes its default threads
  bare loop   a process a core that only steps an environment, pinned: what the machine itself
              loses (caches, memory, clock) when its cores are all busy

Printed are the speeds of one job and, as the ratio, together / alone: the median over rounds in
which all contestants take turns. The claim: sweeper's is within 5% of the bare loop's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import gymnasium
from harness import Row, options_of, parser, print_host, report

ALONE = "alone"
WAYS = ("sweeper", "as usual", "bare loop")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    options.add_argument("--html", type=Path, metavar="FILE", help="draw the ratios")
    options.add_argument("--job", choices=WAYS, help="(serves one contestant)")
    options.add_argument("--cpu", type=int, help="(its CPU)")
    arguments = options.parse_args()
    if arguments.job:
        serve(arguments.job, arguments.cpu)
        return
    from sweeper.trial.cores import usable_cores

    shared = options_of(arguments)
    seconds = 1.0 if shared.quick else arguments.seconds
    cpus = [core[0] for core in usable_cores()]
    if len(cpus) < 2:
        sys.exit("one usable core: nobody can interfere")
    print_host()
    with ExitStack() as stack:
        jobs = {way: [stack.enter_context(Job.started(way, cpu)) for cpu in cpus] for way in WAYS}
        for each in jobs.values():
            measure(each, 1.0)  # warmed up
        rows = take_turns(jobs, seconds=seconds, rounds=shared.rounds)
    print_rows(rows)
    report(rows, shared)
    if arguments.html:
        draw(rows, arguments.html)


def take_turns(jobs: dict[str, list[Job]], *, seconds: float, rounds: int) -> list[Row]:
    """Two rows a contestant: alone, and together, with the ratio of the two."""
    alone: dict[str, list[float]] = {way: [] for way in jobs}
    together: dict[str, list[float]] = {way: [] for way in jobs}
    for number in range(rounds):
        for way in list(jobs)[:: 1 if number % 2 == 0 else -1]:
            # The order alternates too: who comes second has a warmer machine.
            for crowd in (False, True) if number % 2 == 0 else (True, False):
                if crowd:
                    together[way].append(statistics.mean(measure(jobs[way], seconds)))
                else:
                    alone[way] += measure(jobs[way][:1], seconds)
    rows = []
    for way, of_one in alone.items():
        ratios = [t / a for t, a in zip(together[way], of_one, strict=True)]
        rows.append(_row(ALONE, way, of_one, 1.0))
        rows.append(
            _row(f"{len(jobs[way])} at once", way, together[way], statistics.median(ratios))
        )
    return rows


def _row(case: str, way: str, rates: list[float], ratio: float) -> Row:
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    return Row(case, way, median, (high - low) / median, ratio, tuple(rates))


def print_rows(rows: list[Row]) -> None:
    print(f"\n{'':10} {'':10} {'steps/s each':>13} {'spread':>7} {'x alone':>8}")
    for row in rows:
        print(f"{row.name:10} {row.case:10} {row.median:13,.0f} {row.spread:7.1%} {row.ratio:8.3f}")


def draw(rows: list[Row], path: Path) -> None:
    import plotly.graph_objects as go

    crowded = [row for row in rows if row.case != ALONE]
    bars = go.Bar(
        x=[row.name for row in crowded],
        y=[row.ratio for row in crowded],
        text=[f"{row.ratio:.0%}" for row in crowded],
    )
    figure = go.Figure(bars)
    figure.update_yaxes(title=f"speed {crowded[0].case} / speed alone", range=[0, 1.1])
    figure.write_html(path)


class Job:
    """A process that measures when it is told, and sleeps otherwise."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def started(cls, way: str, cpu: int) -> Iterator[Job]:
        """A contestant's process, for the length of a `with` block."""
        command = [sys.executable, __file__, "--job", way, "--cpu", str(cpu)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            yield cls(process)
            assert process.stdin is not None
            process.stdin.close()

    def say(self, word: str) -> None:
        """Send a line."""
        print(word, file=self._process.stdin, flush=True)

    def hear(self) -> str:
        """The next line of its answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("a contestant ended; see its error above")
        return line.strip()


def measure(jobs: list[Job], seconds: float) -> list[float]:
    """Steps per second of each of the jobs, all at the same time."""
    for job in jobs:
        job.say(str(seconds))
    for job in jobs:
        assert job.hear() == "ready"
    for job in jobs:
        job.say("go")
    return [float(job.hear()) for job in jobs]


def serve(way: str, cpu: int) -> None:
    """The other end of Job."""
    work = bare_loop(cpu) if way == "bare loop" else training(way)
    for line in sys.stdin:
        print(work(float(line)), flush=True)


def meet() -> None:
    """Tell that all is set up, and wait for the others."""
    print("ready", flush=True)
    sys.stdin.readline()


def training(way: str) -> Callable[[float], float]:
    from sweeper.core.records import RunResult, RunStatus, TrainingStarted
    from sweeper.study.interference import short_trial
    from sweeper.trial.run import run_trial

    def work(seconds: float) -> float:
        with as_usual() if way == "as usual" else nullcontext():
            for event in run_trial(short_trial(seconds)):
                if isinstance(event, TrainingStarted):
                    meet()
                if isinstance(event, RunResult):
                    assert event.status is RunStatus.COMPLETED, event.reason
                    return event.steps_per_second or 0.0
        raise AssertionError("a trial ends in a result")

    return work


@contextmanager
def as_usual() -> Iterator[None]:
    """What a trial does about cores and threads, undone."""
    import torch

    from sweeper.envs.make import make_vec_env
    from sweeper.trial import run
    from sweeper.trial.cores import CoreLease, usable_cpus

    everywhere = CoreLease([usable_cpus()], ())
    default_threads = torch.get_num_threads()
    with (
        patch.object(run, "try_lease", lambda _: everywhere),
        patch.object(run, "pinned_to", lambda _: nullcontext()),
        patch.object(run, "threadpool_limits", lambda _: nullcontext()),
        patch.object(torch, "set_num_threads", lambda _: None),
        patch.object(
            run,
            "make_vec_env",
            lambda env, **options: make_vec_env(env, **options | {"cpus": None}),
        ),
    ):
        yield
    assert torch.get_num_threads() == default_threads


def bare_loop(cpu: int) -> Callable[[float], float]:
    import os

    os.sched_setaffinity(0, {cpu})
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)

    def work(seconds: float) -> float:
        meet()
        begun, steps = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - begun) < seconds:
            for _ in range(100):
                _, _, terminated, truncated, _ = env.step(steps % 2)
                steps += 1
                if terminated or truncated:
                    env.reset()
        return steps / elapsed

    return work


if __name__ == "__main__":
    main()
