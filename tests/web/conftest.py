"""A database written by the real store, and the dashboard over it."""

from __future__ import annotations

import hashlib
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import uvicorn

from sweeper.core.clock import BudgetSpec
from sweeper.core.records import (
    Evaluation,
    HostRecord,
    Measurement,
    PhaseSeconds,
    RunResult,
    RunStatus,
)
from sweeper.envs.spec import EnvSpec
from sweeper.optim.spec import AdamSpec
from sweeper.rl.spec import PPOSpec
from sweeper.store.store import Store, TrialRef
from sweeper.store.versions import StudyRef
from sweeper.trial.spec import ParallelismSpec, TrialSpec
from sweeper.web.app import create_app

BUDGET = BudgetSpec(seconds=10.0)
HOST = HostRecord(
    hostname="node-1",
    hardware_class="EPYC x 2",
    cpu_model="AMD EPYC",
    usable_cores=2,
    memory_bytes=16_000_000_000,
    gpu_model=None,
    os="Linux",
    python="3.11",
    torch="2.13",
    gymnasium="1.4",
    sweeper="0.1.0",
)


@dataclass
class Recorder:
    """Writes studies as a launcher does, ten seconds a trial."""

    url: str
    store: Store
    now: datetime = field(default=datetime(2026, 1, 1, tzinfo=UTC))
    _added: dict[int, TrialRef] = field(default_factory=dict)
    """By number, of the last study that had one of it."""

    def study(self, name: str = "cartpole", target: int | None = 16) -> StudyRef:
        text = f"study: {name}\n"
        return self.store.ensure_study(
            name,
            env="CartPole-v1",
            spec_yaml=text,
            spec_sha256=hashlib.sha256(text.encode()).hexdigest(),
            objectives={"final_return": "maximize", "steps_per_second": "maximize"},
            constraints={},
            budget=BUDGET,
            target_trials=target,
        )

    def hold(self, ref: StudyRef, *, pid: int | None = None) -> None:
        """Be the launcher of the study, with the process `pid` behind it (this one)."""
        self.store.acquire_lease(
            ref.study_id,
            launcher_id="launcher",
            host=socket.gethostname(),
            pid=pid or os.getpid(),
            seconds=1e9,
        )

    def start(
        self,
        ref: StudyRef,
        *,
        n_envs: int = 8,
        origin: str = "sampler",
        budget: BudgetSpec = BUDGET,
        host: HostRecord = HOST,
        **params: Any,
    ):
        config = TrialSpec(
            env=EnvSpec(id="CartPole-v1"),
            algorithm=PPOSpec(n_steps=64, optimizer=AdamSpec(learning_rate=1e-3)),
            parallelism=ParallelismSpec(n_envs=n_envs),
            budget=budget,
        )
        trial = self.store.add_trial(
            ref,
            origin=origin,
            sampler="TPE",
            config=config,
            params={"parallelism.n_envs": n_envs, "algorithm.optimizer.learning_rate": 1e-3}
            | params,
        )
        run_id = self.store.add_run(
            trial.trial_id,
            kind="first",
            attempt=1,
            seed=7,
            seed_kind="tuning",
            host=host,
            budget=budget,
        )
        return trial, run_id

    def trial(
        self,
        ref: StudyRef,
        final_return: float | None = 400.0,
        speed: float | None = 10_000.0,
        *,
        status: RunStatus = RunStatus.COMPLETED,
        feasible: bool | None = True,
        reason: str | None = None,
        learning_seconds: float = 5.0,
        bottleneck: str | None = None,
        advice: str | None = None,
        **trial: Any,
    ) -> int:
        """A whole trial of one run; returns its number."""
        added, run_id = self.start(ref, **trial)
        self._added[added.number] = added
        self._end(
            run_id,
            final_return,
            speed,
            status=status,
            feasible=feasible,
            reason=reason,
            learning_seconds=learning_seconds,
            bottleneck=bottleneck,
            advice=advice,
        )
        return added.number

    def again(
        self,
        number: int,
        final_return: float,
        speed: float,
        *,
        seed: int,
        seed_kind: str = "tuning",
        learning_seconds: float = 5.0,
        budget: BudgetSpec = BUDGET,
        host: HostRecord = HOST,
        **diagnosis: str,
    ) -> None:
        """Another whole run of a trial that `trial` made."""
        run_id = self.store.add_run(
            self._added[number].trial_id,
            kind="confirm" if seed_kind == "test" else "replicate",
            attempt=1,
            seed=seed,
            seed_kind=seed_kind,
            host=host,
            budget=budget,
        )
        self._end(run_id, final_return, speed, learning_seconds=learning_seconds, **diagnosis)

    def _end(
        self,
        run_id: int,
        final_return: float | None,
        speed: float | None,
        *,
        learning_seconds: float,
        status: RunStatus = RunStatus.COMPLETED,
        feasible: bool | None = True,
        reason: str | None = None,
        bottleneck: str | None = None,
        advice: str | None = None,
    ) -> None:
        self.now += timedelta(seconds=10)
        if final_return is not None:
            self.store.add_measurements(run_id, curve(final_return, speed or 0.0, learning_seconds))
        result = RunResult(
            status=status,
            reason=reason,
            setup_seconds=0.4,
            elapsed_seconds=10.0,
            overshoot_seconds=0.002,
            env_steps=int(10 * (speed or 0)),
            episodes=200,
            updates=50,
            steps_per_second=speed,
            final_return=final_return,
            final_return_stochastic=final_return,
            training_return=final_return,
            seconds_to_threshold=None,
            return_area=final_return,
            phases=PhaseSeconds(
                inference=2.0, env_wait=3.0, bookkeeping=1.0, gradient=2.5, optimizer=1.0, other=0.5
            ),
            evaluate_seconds=1.0,
            cpu_seconds=9.0,
            core_seconds=10.0,
            cpu_utilization=0.9,
            peak_rss_bytes=412_000_000,
            involuntary_switches=12,
        )
        episodes = [
            Evaluation(e, 1000 + e, deterministic, (final_return or 0.0) - e, 100 + e, e == 0)
            for deterministic in (True, False)
            for e in range(5)
        ]
        self.store.finish_run(
            run_id,
            result,
            feasible=feasible,
            evaluations=episodes if status is RunStatus.COMPLETED else (),
            bottleneck=bottleneck,
            advice=advice,
        )


def curve(final_return: float, speed: float, learning_seconds: float) -> list[Measurement]:
    """50 measurements that approach `final_return` with a time constant."""
    return [
        Measurement(
            elapsed_seconds=t / 5,
            progress=t / 50,
            env_steps=int(speed * t / 5) + t,
            updates=t,
            episodes=4 * t,
            training_return=final_return * (1 - math.exp(-t / 5 / learning_seconds * 4)),
            episode_length=100.0,
            steps_per_second=speed,
            learning_rate=1e-3,
        )
        for t in range(1, 51)
    ]


@contextmanager
def recording(url: str) -> Iterator[Recorder]:
    recorder: Recorder
    with Store.open(url, now=lambda: recorder.now) as store:
        recorder = Recorder(url, store)
        yield recorder


def fill_study(recorder: Recorder, name: str = "cartpole") -> StudyRef:
    """A study with a trial of every kind, the baseline first."""
    ref = recorder.study(name)
    recorder.hold(ref)
    recorder.trial(ref, 300.0, 9_000.0, n_envs=1, origin="baseline", learning_seconds=10.0)
    recorder.trial(ref, 500.0, 12_000.0, n_envs=4, learning_seconds=2.0)
    recorder.trial(ref, 350.0, 24_000.0, n_envs=16, learning_seconds=0.5)
    recorder.trial(ref, 200.0, 11_000.0, n_envs=8)
    recorder.trial(ref, 20.0, 30_000.0, n_envs=32, feasible=False)
    recorder.trial(
        ref,
        50.0,
        20_000.0,
        n_envs=64,
        status=RunStatus.DIVERGED,
        feasible=None,
        reason="NaN in the loss at update 12",
    )
    recorder.trial(ref, None, None, status=RunStatus.LOST, feasible=None, reason="its process died")
    recorder.start(ref, n_envs=2)
    return ref


@dataclass(frozen=True, slots=True)
class Served:
    """A dashboard that listens."""

    address: str
    server: uvicorn.Server


@contextmanager
def served(url: str, *, port: int = 0, **options: Any) -> Iterator[Served]:
    """The dashboard in a thread of this process, on a free port of loopback."""
    config = uvicorn.Config(
        create_app(url, **options), log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            # Connections queue in the listener until the server takes them.
            yield Served(f"http://localhost:{listener.getsockname()[1]}", server)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def recorder(tmp_path) -> Iterator[Recorder]:
    """An empty database of the test's own."""
    with recording(f"sqlite:///{tmp_path / 'sweeper.db'}") as recorder:
        yield recorder


@pytest.fixture
def fill() -> Callable[..., StudyRef]:
    return fill_study


@pytest.fixture
def serve() -> Callable[..., AbstractContextManager[Served]]:
    return served


@pytest.fixture
def client(recorder) -> Iterator[httpx.Client]:
    """Asks the dashboard over the test's own database."""
    with (
        served(recorder.url) as running,
        httpx.Client(base_url=running.address, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def filled_url(tmp_path_factory) -> str:
    """A database that holds `fill_study`, for tests that only read."""
    url = f"sqlite:///{tmp_path_factory.mktemp('filled') / 'sweeper.db'}"
    with recording(url) as recorder:
        fill_study(recorder)
    return url


@pytest.fixture(scope="session")
def filled(filled_url) -> Iterator[httpx.Client]:
    """Asks the dashboard over it."""
    with (
        served(filled_url) as running,
        httpx.Client(base_url=running.address, timeout=60) as client,
    ):
        yield client
