"""A study whose database takes no writes for a while; the trials run in this process."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sweeper.core.errors import DatabaseAwayError
from sweeper.store import queries
from sweeper.store.connect import open_writer
from sweeper.store.lease import LeaseLostError
from sweeper.store.sql import run_sql
from sweeper.store.store import Store
from sweeper.study.claim import claim_study
from sweeper.study.executor import InlineExecutor, RunEvent
from sweeper.study.launch import Launcher
from sweeper.study.progress import LaunchState
from sweeper.study.spec import LoadedStudy, load_study
from sweeper.study.spool import spools

STUDY = """\
study: matching
stop: {trials: 4}
sampler: {kind: random}
replicate: {share: 0}
must_learn: false
trial:
  env: {make: "worlds:Matching"}
  algorithm: {kind: ppo, n_steps: 16, n_minibatches: 2, n_epochs: 1}
  parallelism: {vec_env: serial, n_envs: 2}
  budget: {env_steps: 640}
  evaluation: {episodes: 2}
search:
  algorithm.optimizer.learning_rate: {kind: float, low: 1e-4, high: 1e-2, log: true}
"""


class Full:
    """No file of this process can grow beyond the size that a database's log has."""

    def __init__(self, database: Path) -> None:
        self.log = database.with_name(database.name + "-wal")
        self.limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def begin(self) -> None:
        limit = self.log.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, self.limits[1]))

    def end(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.limits)


class Watched(InlineExecutor):
    """Calls back before each event of a run."""

    def __init__(self, before: Callable[[int], None]) -> None:
        super().__init__()
        self.before = before
        self.calls = 0
        self.submitted: list[int] = []

    def submit(self, run_id: int, spec: Any, *, untrained: bool = False) -> None:
        self.submitted.append(run_id)
        super().submit(run_id, spec, untrained=untrained)

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        self.calls += 1
        self.before(self.calls)
        return super().events(timeout_seconds)


@dataclass
class World:
    folder: Path
    states: list[LaunchState] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path = self.folder / "results.db"
        self.url = f"sqlite:///{self.path}"
        (self.folder / "study.yaml").write_text(STUDY)

    @property
    def loaded(self) -> LoadedStudy:
        return load_study(self.folder / "study.yaml")

    @contextmanager
    def launcher(self, executor: InlineExecutor) -> Iterator[Launcher]:
        with (
            Store.open(self.url) as store,
            claim_study(store, self.loaded, target_trials=4) as claim,
        ):
            reader = queries.open_reader(self.url)
            try:
                yield Launcher(
                    self.loaded,
                    claim,
                    store,
                    reader,
                    executor,
                    target_trials=4,
                    watch=self.states.append,
                    poll_seconds=0.01,
                )
            finally:
                reader.dispose()

    def launch(self, before: Callable[[int], None] = lambda _: None) -> Watched:
        executor = Watched(before)
        with self.launcher(executor) as launcher:
            launcher.run()
        return executor

    def execute(self, statement: str) -> None:
        engine = open_writer(self.url)
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    def forget_the_launcher(self) -> None:
        """As if its process, which is that of the test, were dead."""
        self.execute("DELETE FROM launchers")

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        reader = queries.open_reader(self.url)
        try:
            return list(run_sql(reader, text).rows)
        finally:
            reader.dispose()

    @property
    def results(self) -> list[tuple[Any, ...]]:
        """What a study with these seeds must come to, whatever happens."""
        return [
            self.sql(f"SELECT {columns} ORDER BY 1, 2, 3")
            for columns in (
                "trial_id, seed, attempt, status, final_return FROM runs",
                "run_id, env_steps, training_return FROM measurements",
                "run_id, episode, episode_return FROM evaluations",
                "number, status, feasible, origin FROM trials",
                "trial_id, kind, run_id FROM events WHERE trial_id IS NOT NULL",
            )
        ]

    @property
    def spooled(self) -> int:
        reader = queries.open_reader(self.url)
        try:
            return sum(spools(queries.study(reader, None)).values())
        finally:
            reader.dispose()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return World(tmp_path)


@pytest.fixture
def undisturbed(tmp_path: Path, world: World) -> list[tuple[Any, ...]]:
    (tmp_path / "undisturbed").mkdir()
    other = World(tmp_path / "undisturbed")
    other.launch()
    return other.results


@pytest.fixture
def full(world: World) -> Iterator[Full]:
    full = Full(world.path)
    yield full
    full.end()


@pytest.mark.parametrize("at", [3, 30, 64])
def test_what_is_measured_while_the_disk_is_full_is_written_once_when_it_is_not(
    world: World, undisturbed: list[tuple[Any, ...]], full: Full, at: int
) -> None:
    def before(call: int) -> None:
        if call == at:
            full.begin()
        away = [state for state in world.states if state.away is not None]
        if away and away[-1].running == ():  # the run has ended, spooled
            full.end()

    executor = world.launch(before)
    assert world.results == undisturbed
    assert len(set(executor.submitted)) == len(executor.submitted) == 4
    assert world.spooled == 0
    away = [state for state in world.states if state.away is not None]
    assert away
    assert len({len(state.trials) for state in away}) == 1  # nothing was asked for meanwhile
    ((detail,),) = world.sql("SELECT detail FROM events WHERE kind = 'outage'")
    assert "entries waited in the spool" in detail
    assert world.states[-1].away is None


def test_what_a_launcher_had_spooled_when_it_died_is_written_by_the_next_one(
    world: World, undisturbed: list[tuple[Any, ...]], full: Full
) -> None:
    class Died(BaseException):
        pass

    def before(call: int) -> None:
        if call == 10:
            full.begin()
        if world.states and world.states[-1].away is not None and not world.states[-1].running:
            raise Died

    with pytest.raises(Died):
        world.launch(before)
    full.end()
    world.forget_the_launcher()
    assert world.sql("SELECT status FROM runs") == [("RUNNING",)]
    assert world.spooled > 0
    world.launch()
    assert world.spooled == 0
    assert world.results == undisturbed
    ((detail,),) = world.sql("SELECT detail FROM events WHERE kind = 'outage'")
    assert "of a launcher that died" in detail


def test_a_stop_during_an_outage_says_where_the_results_wait(world: World, full: Full) -> None:
    def before(call: int) -> None:
        if call == 10:
            full.begin()
        if world.states and world.states[-1].away is not None:
            launcher.stop()

    with world.launcher(Watched(before)) as launcher, pytest.raises(DatabaseAwayError) as caught:
        launcher.run()
    full.end()
    world.forget_the_launcher()
    (path,) = (world.folder / "state" / "sweeper" / "spool").iterdir()
    assert f"waits in {path}, and the next launch writes it" in str(caught.value)
    world.launch()
    statuses = [status for (status,) in world.sql("SELECT status FROM runs")]
    assert statuses.count("COMPLETED") == 4
    assert set(statuses) <= {"COMPLETED", "INTERRUPTED"}
    assert not path.exists()


def test_a_launcher_that_was_deposed_during_an_outage_stands_down_and_its_result_counts_once(
    world: World, full: Full
) -> None:
    def before(call: int) -> None:
        if call == 10:
            full.begin()
        if world.states and world.states[-1].away is not None and not world.states[-1].running:
            full.end()
            world.execute("UPDATE launchers SET launcher_id = 'another'")

    with pytest.raises(LeaseLostError, match="was taken over"):
        world.launch(before)
    assert world.sql("SELECT status FROM runs") == [("RUNNING",)]  # nothing was written
    assert world.spooled > 0
    with Store.open(world.url) as store:
        store.mark_lost(1, "its launcher died")
    world.forget_the_launcher()
    world.launch()
    assert world.sql("SELECT status, count(*) FROM runs GROUP BY 1") == [("COMPLETED", 4)]
    assert world.sql("SELECT run_id, count(*) FROM evaluations GROUP BY 1") == [
        (run_id, 4) for run_id in range(1, 5)
    ]


def test_an_end_that_was_written_but_not_acknowledged_is_not_written_twice(
    world: World, undisturbed: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks between the commit and its confirmation, once at each call."""
    broken = set()

    def breaking(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def broken_once(*args: Any, **kwargs: Any) -> Any:
            answer = call(*args, **kwargs)
            if name not in broken:
                broken.add(name)
                raise DatabaseAwayError("the connection was lost")
            return answer

        return broken_once

    for name in ("add_trial", "add_run", "add_measurements", "finish_run"):
        monkeypatch.setattr(Store, name, breaking(name, getattr(Store, name)))
    world.launch()
    assert len(broken) == 4
    assert world.results == undisturbed
