"""The contract: every test that asks for `url` runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import Engine

from sweeper.core.clock import BudgetSpec
from sweeper.core.records import (
    Evaluation,
    HostRecord,
    Measurement,
    PhaseSeconds,
    RunResult,
    RunStatus,
)
from sweeper.store.queries import open_reader
from sweeper.store.store import Store, TrialRef
from sweeper.store.versions import StudyRef
from sweeper.trial.spec import TrialSpec


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.system)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'a folder' / 'sweeper.db'}"
    return request.getfixturevalue("postgres_url")


class Calendar:
    """A wall clock that moves when it is told to."""

    def __init__(self) -> None:
        self.moment = datetime(2030, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def store(url: str, calendar: Calendar, tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "a folder").mkdir()
    with Store.open(url, now=calendar) as store:
        yield store


@pytest.fixture
def reader(store: Store, url: str) -> Iterator[Engine]:
    engine = open_reader(url)
    yield engine
    engine.dispose()


class Example:
    """Plausible records, each as short to write as what the test is about."""

    host = HostRecord(
        hostname="node-1",
        hardware_class="Fast 8",
        cpu_model="Fast CPU",
        usable_cores=8,
        memory_bytes=2**40,
        gpu_model=None,
        os="Linux 6",
        python="3.12.1",
        torch="2.11.0",
        gymnasium="1.2.0",
        sweeper="0.1.0",
    )
    budget = BudgetSpec(seconds=10.0)
    objectives: ClassVar = {"final_return": "maximize", "steps_per_second": "maximize"}

    def study(self, store: Store, name: str = "a study", **changes: object) -> StudyRef:
        given = {
            "env": "CartPole-v1",
            "spec_yaml": "study: a study\n",
            "spec_sha256": "1" * 64,
            "objectives": self.objectives,
            "constraints": {"peak_rss_bytes": {"max": 4e9}},
            "budget": self.budget,
        }
        return store.ensure_study(name, **(given | changes))

    def config(self, **changes: object) -> TrialSpec:
        return TrialSpec.model_validate(
            {
                "env": {"id": "CartPole-v1"},
                "algorithm": {"kind": "ppo", "n_steps": 128, "n_minibatches": 4, "n_epochs": 6},
                "budget": {"seconds": 10.0},
            }
            | changes
        )

    def trial(self, store: Store, ref: StudyRef, **changes: object) -> TrialRef:
        given = {"origin": "sampler", "sampler": "tpe", "config": self.config(), "params": {}}
        return store.add_trial(ref, **(given | changes))

    def run(self, store: Store, trial: TrialRef, **changes: object) -> int:
        given = {
            "kind": "first",
            "attempt": 1,
            "seed": 0,
            "seed_kind": "tuning",
            "host": self.host,
            "budget": self.budget,
        }
        return store.add_run(trial.trial_id, **(given | changes))

    def result(self, status: RunStatus = RunStatus.COMPLETED, **changes: object) -> RunResult:
        result = RunResult(
            status=status,
            reason=None if status is RunStatus.COMPLETED else f"it was {status}\ntraceback",
            setup_seconds=1.5,
            elapsed_seconds=10.001,
            overshoot_seconds=0.001,
            env_steps=100_000,
            episodes=400,
            updates=97,
            steps_per_second=9999.0,
            final_return=500.0,
            final_return_stochastic=480.5,
            training_return=450.25,
            seconds_to_threshold=6.5,
            return_area=200.0,
            phases=PhaseSeconds(3.0, 2.0, 1.0, 2.5, 0.5, 0.25, 0.751),
            evaluate_seconds=0.75,
            cpu_seconds=9.5,
            core_seconds=10.001,
            cpu_utilization=0.95,
            peak_rss_bytes=3 * 2**30,
            involuntary_switches=12,
            leased_cores=(2, 3),
        )
        return replace(result, **changes)

    def finished(self, store: Store, ref: StudyRef, **changes: object) -> TrialRef:
        """A trial with one COMPLETED run; `changes` are to its result, and `feasible`."""
        feasible = changes.pop("feasible", True)
        trial = self.trial(store, ref)
        run_id = self.run(store, trial)
        assert store.finish_run(run_id, self.result(**changes), feasible=feasible)
        return trial

    def measurement(self, env_steps: int, progress: float, **changes: object) -> Measurement:
        row = Measurement(
            elapsed_seconds=10.0 * progress,
            progress=progress,
            env_steps=env_steps,
            updates=env_steps // 1024,
            episodes=env_steps // 200,
            training_return=20.0,
            episode_length=20.0,
            steps_per_second=10_000.0,
            learning_rate=3e-4,
            approx_kl=0.01,
        )
        return replace(row, **changes)

    def evaluation(self, episode: int, **changes: object) -> Evaluation:
        row = Evaluation(
            episode=episode,
            seed=1000 + episode,
            deterministic=True,
            episode_return=500.0,
            length=500,
            truncated=True,
        )
        return replace(row, **changes)


@pytest.fixture(scope="session")
def example() -> Example:
    return Example()


@pytest.fixture
def sqlite_reader(tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path / 'only.db'}"
    Store.open(url).close()
    engine = open_reader(url)
    yield engine
    engine.dispose()


@pytest.fixture
def postgres_reader(postgres_url: str) -> Iterator[Engine]:
    Store.open(postgres_url).close()
    engine = open_reader(postgres_url)
    yield engine
    engine.dispose()
