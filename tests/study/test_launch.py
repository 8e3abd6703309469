"""The study loop on a real store, with trials run in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from sqlalchemy import Engine

from sweeper.cli.retry import retry_runs
from sweeper.core.clock import BudgetSpec, ManualClock
from sweeper.core.errors import InputError
from sweeper.core.records import (
    Measurement,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
)
from sweeper.store import queries
from sweeper.store.rows import TrialRow
from sweeper.store.store import Store
from sweeper.store.versions import StudyChangedError
from sweeper.study.claim import claim_study
from sweeper.study.executor import (
    ClusterLostError,
    Executor,
    InlineExecutor,
    Notice,
    RunEvent,
    lost_result,
)
from sweeper.study.launch import FLUSH_SECONDS, Launcher
from sweeper.study.progress import LaunchState
from sweeper.study.resources import Need, Resources, lacking
from sweeper.study.spec import ConfirmSpec, LoadedStudy, load_study
from sweeper.trial.cores import LEASES
from sweeper.trial.queue import Place
from sweeper.trial.spec import TrialSpec

STUDY: dict[str, Any] = {
    "study": "matching",
    "stop": {"trials": 5},
    "replicate": {"share": 0},
    "must_learn": False,
    "trial": {
        "env": {"make": "worlds:Matching"},
        "algorithm": {"kind": "ppo", "n_steps": 16, "n_minibatches": 2, "n_epochs": 1},
        "parallelism": {"vec_env": "serial", "n_envs": 2},
        "budget": {"env_steps": 640},
        "evaluation": {"episodes": 2},
    },
    "search": {
        "parallelism.n_envs": {"kind": "pow2", "low": 1, "high": 4},
        "algorithm.optimizer.learning_rate": {
            "kind": "float",
            "low": 1e-4,
            "high": 1e-2,
            "log": True,
        },
    },
    "baseline": {"set": {"algorithm.gamma": 0.9}},
    "enqueue": [{"parallelism.n_envs": 4}],
}


@dataclass
class World:
    """A store, and launches of one study on it."""

    folder: Path
    url: str

    def load(self, **changes: Any) -> LoadedStudy:
        path = self.folder / "study.yaml"
        with path.open("w") as file:
            YAML(typ="safe", pure=True).dump({**STUDY, **changes}, file)
        return load_study(path)

    def launch(
        self,
        *,
        executor: Executor | None = None,
        new_version: bool = False,
        stop_after: int | None = None,
        **changes: Any,
    ) -> list[TrialRow]:
        loaded = self.load(**changes)
        target = loaded.spec.stop.trials
        reader = None
        with (
            Store.open(self.url) as store,
            claim_study(store, loaded, target_trials=target, new_version=new_version) as claim,
        ):
            reader = queries.open_reader(self.url)

            def watch(state: LaunchState) -> None:
                finished = sum(t.status == RunStatus.COMPLETED for t in state.trials)
                if stop_after is not None and finished >= stop_after:
                    launcher.stop()

            launcher = Launcher(
                loaded,
                claim,
                store,
                reader,
                executor or InlineExecutor(),
                target_trials=target,
                watch=watch,
            )
            launcher.run()
            trials = queries.trials(reader, claim.study.study_id)
            reader.dispose()
        return trials

    def confirm(
        self,
        plan: ConfirmSpec,
        budget: BudgetSpec | None = None,
        *,
        executor: InlineExecutor | None = None,
        **changes: Any,
    ) -> None:
        loaded, runs = self.load(**changes), executor or InlineExecutor()
        with (
            Store.open(self.url) as store,
            claim_study(store, loaded, target_trials=5) as claim,
            closing_reader(self.url) as reader,
        ):
            launcher = Launcher(loaded, claim, store, reader, runs, target_trials=5)
            launcher.confirm(plan, budget)

    def ask(self, status: str) -> None:
        """What `sweeper retry` does."""
        retry_runs("matching", db=self.url, statuses=status, as_json=False)

    def tests(self) -> list[tuple[Any, ...]]:
        """Attempts at the confirmation, in order."""
        return self.sql(
            "SELECT attempt, kind, status FROM runs WHERE seed_kind = 'test' ORDER BY run_id"
        )

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        from sweeper.store.sql import run_sql

        reader = queries.open_reader(self.url)
        rows = list(run_sql(reader, text).rows)
        reader.dispose()
        return rows


@contextmanager
def closing_reader(url: str) -> Iterator[Engine]:
    reader = queries.open_reader(url)
    try:
        yield reader
    finally:
        reader.dispose()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    return World(tmp_path, f"sqlite:///{tmp_path / 'results.db'}")


def test_a_study_runs_what_the_file_names_and_then_what_the_sampler_suggests(world: World) -> None:
    trials = world.launch()
    assert [trial.number for trial in trials] == [1, 2, 3, 4, 5]
    assert [trial.origin for trial in trials][:3] == ["baseline", "enqueued", "startup"]
    assert all(trial.status == "COMPLETED" for trial in trials)
    assert all(trial.feasible for trial in trials)
    assert trials[0].gamma == 0.9
    assert trials[1].n_envs == 4
    assert world.sql("SELECT count(*) FROM runs WHERE status = 'COMPLETED'") == [(5,)]
    assert world.sql("SELECT count(DISTINCT seed) FROM runs") == [(5,)]
    assert world.sql("SELECT min(n) FROM (SELECT count(*) AS n FROM measurements GROUP BY run_id)")[
        0
    ] > (1,)
    assert world.sql("SELECT count(*) FROM evaluations") == [(20,)]
    assert world.sql("SELECT count(*) FROM hosts") == [(1,)]
    assert world.sql("SELECT count(*) FROM launchers") == [(0,)]


def test_the_stored_configuration_runs_as_it_is(world: World) -> None:
    from sweeper.trial.run import run_trial

    trial = world.launch()[2]
    *_, result = run_trial(TrialSpec.model_validate_json(trial.config_json))
    assert result.final_return == trial.final_return  # type: ignore[union-attr]


def test_launching_a_finished_study_again_runs_nothing(world: World) -> None:
    first = world.launch()
    assert world.launch() == first


def test_a_larger_total_adds_trials(world: World) -> None:
    world.launch()
    assert len(world.launch(stop={"trials": 7})) == 7
    assert world.sql("SELECT count(*) FROM runs") == [(7,)]


def test_a_changed_file_is_refused_unless_it_may_be_a_new_version(world: World) -> None:
    world.launch()
    search = {**STUDY["search"], "parallelism.n_envs": {"kind": "pow2", "low": 2, "high": 8}}
    with pytest.raises(StudyChangedError, match="another file"):
        world.launch(search=search, stop={"trials": 7})
    trials = world.launch(search=search, stop={"trials": 7}, new_version=True)
    assert len(trials) == 7
    assert world.sql("SELECT number FROM study_versions") == [(1,), (2,)]


def test_a_stopped_study_is_taken_up_where_it_was(world: World) -> None:
    before = world.launch(stop_after=2)
    assert 2 <= len(before) < 5
    after = world.launch()
    assert [trial.status for trial in after] == ["COMPLETED"] * 5
    assert world.sql("SELECT count(*) FROM runs WHERE status = 'RUNNING'") == [(0,)]
    assert world.sql(
        "SELECT count(*) FROM (SELECT trial_id FROM runs WHERE status = 'COMPLETED' "
        "GROUP BY trial_id HAVING count(*) > 1)"
    ) == [(0,)]


def test_a_trial_that_fits_nowhere_ends_the_launch_and_not_the_study(world: World) -> None:
    """As where the only node that could hold it has died."""
    cores = {"kind": "choice", "choices": [1, 2]}
    search = {**STUDY["search"], "parallelism.cores": cores}
    enqueue = [{"parallelism.cores": 1}, {"parallelism.cores": 2}]
    with pytest.raises(ClusterLostError, match="no node is left that has the 2 cores for"):
        world.launch(search=search, enqueue=enqueue)
    assert world.sql("SELECT number, status FROM trials ORDER BY number") == [
        (1, "COMPLETED"),
        (2, "COMPLETED"),
        (3, "QUEUED"),
    ]
    assert world.sql("SELECT count(*) FROM launchers") == [(0,)]


def test_the_search_has_the_last_word_on_how_large_trials_are(world: World) -> None:
    trial = {**STUDY["trial"], "parallelism": {"vec_env": "serial", "n_envs": 2, "cores": 64}}
    cores = {"kind": "constant", "value": 1}
    search = {**STUDY["search"], "parallelism.cores": cores}
    trials = world.launch(trial=trial, search=search, baseline=None, enqueue=[])
    assert [trial.status for trial in trials] == ["COMPLETED"] * 5


class Losing(InlineExecutor):
    """Loses the first attempts at a trial, as if its process had died."""

    def __init__(self, losses: int, status: RunStatus = RunStatus.LOST) -> None:
        super().__init__()
        self.left = losses
        self.status = status

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        events = super().events(timeout_seconds)
        if self.left and events and isinstance(events[0].event, Measurement):
            self.left -= 1
            run_id = events[0].run_id
            self.close()
            return [RunEvent(run_id, lost_result(self.status, "the process died"))]
        return events


class Dying(InlineExecutor):
    """Takes its launcher with it."""

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        self.close()
        raise RuntimeError("the launcher dies")


def test_a_lost_run_is_made_again_with_the_same_seed(world: World) -> None:
    trials = world.launch(executor=Losing(2))
    assert [trial.status for trial in trials] == ["COMPLETED"] * 5
    rows = world.sql(
        "SELECT attempt, kind, status, reason FROM runs WHERE trial_id = 1 ORDER BY run_id"
    )
    assert rows == [
        (1, "first", "LOST", "the process died"),
        (2, "retry", "LOST", "the process died"),
        (3, "retry", "COMPLETED", None),
    ]
    assert world.sql("SELECT count(DISTINCT seed) FROM runs WHERE trial_id = 1") == [(1,)]


def test_retries_are_bounded(world: World) -> None:
    trials = world.launch(executor=Losing(100), stop={"trials": 2})
    assert [trial.status for trial in trials] == ["LOST"] * 2
    assert world.sql("SELECT count(*) FROM runs") == [(6,)]
    assert [trial.status for trial in world.launch(stop={"trials": 2})] == ["LOST"] * 2


def test_a_failure_that_is_made_good_on_request_counts_no_longer(world: World) -> None:
    failing = Losing(1, RunStatus.ERROR)
    (trial,) = world.launch(executor=failing, stop={"trials": 1})
    assert (trial.status, trial.feasible) == ("ERROR", False)
    ((run_id,),) = world.sql("SELECT run_id FROM runs")
    with Store.open(world.url) as store:
        store.add_event("retry", study_id=trial.study_id, run_id=run_id)
    (trial,) = world.launch(stop={"trials": 1})
    assert (trial.status, trial.feasible, trial.n_runs) == ("COMPLETED", True, 1)
    assert world.sql("SELECT kind, attempt, status FROM runs ORDER BY run_id") == [
        ("first", 1, "ERROR"),
        ("retry", 2, "COMPLETED"),
    ]


def test_a_launcher_waits_for_its_turn_and_heeds_a_word_to_stop_meanwhile(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASES, str(tmp_path))
    loaded, reader = world.load(), None
    states: list[LaunchState] = []
    with (
        Place("ahead", priority=0, most=1) as ahead,
        Place("matching", priority=0, most=1) as place,
        Store.open(world.url) as store,
        claim_study(store, loaded, target_trials=5) as claim,
    ):
        place._usable = 1

        def watch(state: LaunchState) -> None:
            states.append(state)
            if len(states) == 2:
                ahead.tell(cores=0, wanted=0)
            if len(states) == 4:
                store.ask_to_stop(claim.study.study_id, "stop")
                clock.advance(FLUSH_SECONDS)

        reader, clock = queries.open_reader(world.url), ManualClock()
        launcher = Launcher(
            loaded,
            claim,
            store,
            reader,
            InlineExecutor(),
            target_trials=5,
            place=place,
            clock=clock,
            watch=watch,
            poll_seconds=0.0,
        )
        launcher.run()
        reader.dispose()
    assert [state.behind and state.behind.study for state in states[:3]] == ["ahead", "ahead", None]
    assert launcher.stopping
    assert world.sql("SELECT DISTINCT status FROM runs") == [("INTERRUPTED",)]


def test_a_run_that_was_left_by_a_dead_launcher_is_lost_and_made_again(world: World) -> None:
    loaded = world.load()
    with (
        Store.open(world.url) as store,
        claim_study(store, loaded, target_trials=5) as claim,
    ):
        (baseline, *_) = loaded.queue
        trial = store.add_trial(
            claim.study, origin="baseline", sampler=None, config=baseline.trial, params={}
        )
        store.add_run(
            trial.trial_id,
            kind="first",
            attempt=1,
            seed=1,
            seed_kind="tuning",
            host=None,
            budget=baseline.trial.budget,
        )
    trials = world.launch()
    assert [t.status for t in trials] == ["COMPLETED"] * 5
    assert world.sql("SELECT status FROM runs WHERE trial_id = 1 ORDER BY run_id") == [
        ("LOST",),
        ("COMPLETED",),
    ]


def test_an_error_of_the_environment_fails_its_trial_and_not_the_study(world: World) -> None:
    trial = {
        **STUDY["trial"],
        "env": {"make": "worlds:Broken", "kwargs": {"how": "raise", "after": 20}},
    }
    trials = world.launch(trial=trial)
    assert {trial.status for trial in trials} == {"ERROR"}
    assert all("the simulator exploded" in str(trial.reason) for trial in trials)
    assert world.sql("SELECT count(*) FROM runs") == [(5,)]  # not retried
    assert world.sql("SELECT count(*) FROM runs WHERE reason LIKE '%Traceback%'") == [(5,)]


def test_a_suggestion_that_was_made_before_becomes_a_replicate(world: World) -> None:
    search = {"parallelism.n_envs": {"kind": "pow2", "low": 1, "high": 2}}
    changes: dict[str, Any] = {"search": search, "baseline": None, "enqueue": []}
    trials = world.launch(**changes, stop={"trials": 6})
    assert len(trials) == 2
    assert sum(trial.n_runs for trial in trials) == 6
    assert world.sql("SELECT kind, count(*) FROM runs GROUP BY kind ORDER BY kind") == [
        ("first", 2),
        ("replicate", 4),
    ]
    assert world.sql("SELECT count(DISTINCT seed) FROM runs") == [(6,)]
    assert world.launch(**changes, stop={"trials": 6}) == trials


def test_a_constraint_keeps_trials_off_the_front(world: World) -> None:
    trials = world.launch(constraints={"final_return": {"min": 1000.0}})
    assert not any(trial.feasible for trial in trials)
    assert world.sql("SELECT count(*) FROM pareto_front") == [(0,)]


def test_a_replicate_that_was_left_by_a_dead_launcher_is_made_again_with_its_own_seed(
    world: World,
) -> None:
    (trial, *_) = world.launch(stop={"trials": 1})
    loaded = world.load()
    with Store.open(world.url) as store:
        store.add_run(
            trial.trial_id,
            kind="replicate",
            attempt=1,
            seed=77,
            seed_kind="tuning",
            host=None,
            budget=loaded.spec.trial.budget,
        )
    world.launch(stop={"trials": 2})
    assert world.sql("SELECT kind, attempt, status FROM runs WHERE seed = 77 ORDER BY run_id") == [
        ("replicate", 1, "LOST"),
        ("retry", 2, "COMPLETED"),
    ]


def test_runs_that_an_impatient_user_ends_are_interrupted_and_made_again(world: World) -> None:
    class Impatient(InlineExecutor):
        def events(self, timeout_seconds: float) -> list[RunEvent]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.launch(executor=Impatient())
    assert world.sql("SELECT status FROM runs") == [("INTERRUPTED",)]
    assert [trial.status for trial in world.launch()] == ["COMPLETED"] * 5


def test_trials_in_doubt_are_run_again_within_their_share(world: World) -> None:
    trials = world.launch(replicate={"share": 0.5, "max_seeds": 3}, stop={"trials": 6})
    assert [trial.number for trial in trials] == [1, 2, 3, 4, 5, 6]
    runs = world.sql("SELECT kind, count(*) FROM runs GROUP BY kind ORDER BY kind")
    assert runs[0] == ("first", 6)
    assert runs[1][0] == "replicate"
    assert 1 <= runs[1][1] <= 6
    assert max(trial.n_runs for trial in trials) <= 3
    assert world.sql("SELECT count(DISTINCT seed) FROM runs") == [(6 + runs[1][1],)]
    assert world.launch(replicate={"share": 0.5, "max_seeds": 3}, stop={"trials": 6}) == trials


def test_the_front_is_confirmed_on_seeds_that_the_search_never_saw(world: World) -> None:
    plan = {"top": 2, "seeds": 3}
    trials = world.launch(confirm=plan)
    tested = [trial for trial in trials if trial.n_test_runs]
    assert all(trial.n_test_runs == 3 for trial in tested)
    assert 1 in [trial.number for trial in tested]  # the baseline, on the front or not
    assert len(tested) <= 3
    assert world.sql(
        "SELECT DISTINCT kind, seed_kind FROM runs WHERE seed_kind = 'test' OR kind = 'confirm'"
    ) == [("confirm", "test")]
    assert world.sql(
        "SELECT count(*) FROM runs a JOIN runs b ON a.seed = b.seed "
        "WHERE a.seed_kind = 'test' AND b.seed_kind = 'tuning'"
    ) == [(0,)]
    assert world.sql("SELECT count(DISTINCT seed) FROM runs WHERE seed_kind = 'test'") == [(3,)]
    assert world.sql(
        "SELECT count(*) FROM evaluations e JOIN runs r ON r.run_id = e.run_id "
        "WHERE r.seed_kind = 'test' AND e.seed IN (SELECT f.seed FROM evaluations f "
        "JOIN runs s ON s.run_id = f.run_id WHERE s.seed_kind = 'tuning')"
    ) == [(0,)]
    assert world.launch(confirm=plan) == trials  # nothing is confirmed twice
    more = {trial.number: trial.n_test_runs for trial in world.launch(confirm={**plan, "seeds": 4})}
    assert all(more[trial.number] == 4 for trial in tested)


def test_what_is_confirmed_does_not_change_what_was_tuned(world: World) -> None:
    before = world.launch()
    after = world.launch(confirm={"top": 3, "seeds": 2})
    assert [t.final_return for t in after] == [t.final_return for t in before]
    assert [t.n_runs for t in after] == [1] * 5
    assert [t.feasible for t in after] == [t.feasible for t in before]


def test_a_shorter_confirmation_is_kept_apart(world: World) -> None:
    trials = world.launch()
    world.confirm(ConfirmSpec(top=1, seeds=2), BudgetSpec(env_steps=320))
    assert world.sql(
        "SELECT budget_env_steps, count(*) FROM runs WHERE kind = 'confirm' GROUP BY 1"
    )[0][0] == (320)
    reader = queries.open_reader(world.url)
    study = queries.study(reader, "matching")
    assert queries.trials(reader, study.study_id) == trials  # no figure of theirs moved
    reader.dispose()


ONE = ConfirmSpec(top=1, seeds=1)
ALONE: dict[str, Any] = {"baseline": None, "enqueue": []}


def test_a_confirmation_that_is_lost_is_made_again_within_bounds(world: World) -> None:
    world.launch(stop={"trials": 1}, **ALONE)
    world.confirm(ONE, executor=Losing(2), **ALONE)
    assert world.tests() == [
        (1, "confirm", "LOST"),
        (2, "retry", "LOST"),
        (3, "retry", "COMPLETED"),
    ]
    assert world.sql("SELECT count(DISTINCT seed) FROM runs WHERE seed_kind = 'test'") == [(1,)]
    world.confirm(ONE, **ALONE)
    assert len(world.tests()) == 3


def test_a_confirmation_whose_launcher_died_is_taken_up_by_the_next(world: World) -> None:
    world.launch(stop={"trials": 1}, **ALONE)
    with pytest.raises(RuntimeError, match="dies"):
        world.confirm(ONE, executor=Dying(), **ALONE)
    assert world.tests() == [(1, "confirm", "RUNNING")]
    world.confirm(ONE, executor=Losing(1), **ALONE)
    assert [row[2] for row in world.tests()] == ["LOST", "LOST", "COMPLETED"]


def test_a_confirmation_that_is_lost_for_good_is_made_again_on_request_alone(world: World) -> None:
    world.launch(stop={"trials": 1}, **ALONE)
    world.confirm(ONE, executor=Losing(99), **ALONE)
    assert len(world.tests()) == 3
    world.confirm(ONE, **ALONE)
    assert len(world.tests()) == 3
    world.ask("LOST")
    world.launch(stop={"trials": 1}, **ALONE)  # which does not confirm
    assert len(world.tests()) == 3
    world.launch(stop={"trials": 1}, confirm={"top": 1, "seeds": 1}, **ALONE)
    assert world.tests()[3:] == [(4, "retry", "COMPLETED")]
    assert world.sql("SELECT detail FROM events WHERE kind = 'retried' ORDER BY event_id") == [
        (None,),
        (None,),
        ("asked for by `sweeper retry`",),
    ]


@pytest.mark.parametrize(("status", "attempts"), [(RunStatus.OOM, 2), (RunStatus.ERROR, 1)])
def test_a_confirmation_that_fails_is_repeated_as_the_search_is(
    world: World, status: RunStatus, attempts: int
) -> None:
    (trial,) = world.launch(stop={"trials": 1}, **ALONE)
    world.confirm(ONE, executor=Losing(99, status), **ALONE)
    assert [row[2] for row in world.tests()] == [status] * attempts
    world.ask(status)
    world.confirm(ONE, **ALONE)
    assert world.tests()[attempts:] == [(attempts + 1, "retry", "COMPLETED")]
    (after,) = world.launch(stop={"trials": 1}, **ALONE)
    assert (after.status, after.feasible, after.n_test_runs) == ("COMPLETED", trial.feasible, 1)


def test_attempts_on_another_budget_do_not_count_for_a_confirmation(world: World) -> None:
    world.launch(stop={"trials": 1}, **ALONE)
    short = BudgetSpec(env_steps=320)
    world.confirm(ONE, short, executor=Losing(1, RunStatus.ERROR), **ALONE)
    world.confirm(ONE, executor=Losing(99), **ALONE)
    assert world.tests() == [
        (1, "confirm", "ERROR"),
        (2, "confirm", "LOST"),
        (3, "retry", "LOST"),
        (4, "retry", "LOST"),
    ]
    world.ask("ERROR,LOST")
    world.confirm(ONE, short, **ALONE)
    world.confirm(ONE, **ALONE)
    assert world.tests()[4:] == [(5, "retry", "COMPLETED"), (6, "retry", "COMPLETED")]
    assert world.sql(
        "SELECT budget_env_steps FROM runs WHERE seed_kind = 'test' AND status = 'COMPLETED' "
        "ORDER BY run_id"
    ) == [(320,), (640,)]


class Sabotaged(InlineExecutor):
    """Shows the pruner a return and a speed of its own making for each run."""

    def __init__(self, shown: dict[int, float]) -> None:
        super().__init__()
        self.shown = shown

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        return [
            RunEvent(
                run_id,
                replace(
                    event,
                    training_return=self.shown.get(run_id, 0.0),
                    steps_per_second=self.shown.get(run_id, 0.0),
                )
                if isinstance(event, Measurement)
                else event,
            )
            for run_id, event in super().events(timeout_seconds)
        ]


def test_who_falls_behind_is_ended_with_its_rung_and_those_who_beat_it(world: World) -> None:
    changes: dict[str, Any] = {
        "pruner": {"kind": "pareto_rungs", "rungs": [0.2, 0.5]},
        "stop": {"trials": 7},
        "baseline": None,
    }
    shown = {1: 5.0, 2: 6.0, 3: 7.0, 4: 8.0, 5: 1.0, 6: 9.0, 7: 2.0}
    trials = world.launch(executor=Sabotaged(shown), **changes)
    statuses = {trial.number: trial.status for trial in trials}
    assert [n for n, status in statuses.items() if status == "PRUNED"] == [5, 7]
    rows = world.sql("SELECT rung, reason, final_return FROM runs WHERE status = 'PRUNED'")
    assert [row[0] for row in rows] == [1, 1]
    assert "4 of 4 trials had a better return and speed (1, 2, 3, 4)" in rows[0][1]
    assert rows[0][2] is None
    # A later launch remembers who was there before.
    later = world.launch(executor=Sabotaged({8: 1.5}), **{**changes, "stop": {"trials": 8}})
    assert later[7].status == "PRUNED"
    assert "(1, 2, 3, 4, 6, 7)" in str(later[7].reason)


def test_another_study_informs_this_one_and_is_not_part_of_it(world: World) -> None:
    world.launch(stop={"trials": 6})
    cold = world.launch(study="cold", stop={"trials": 6}, baseline=None, enqueue=[])
    warm = world.launch(
        study="warm",
        stop={"trials": 6},
        baseline=None,
        enqueue=[],
        warm_start={"study": "matching"},
    )
    assert [trial.number for trial in warm] == [1, 2, 3, 4, 5, 6]
    assert cold[0].origin == "startup"
    assert warm[0].origin == "sampler"
    assert warm[0].params != cold[0].params


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warm_start": {"study": "machting"}}, "there is no study 'machting'; did you mean"),
        (
            {"trial": {**STUDY["trial"], "budget": {"env_steps": 320}}},
            "warm_start: study 'matching' has no finished trial on worlds:Matching with a budget "
            "of 320 env steps",
        ),
    ],
)
def test_a_study_that_does_not_compare_is_refused_as_a_start(
    world: World, changes: dict[str, Any], message: str
) -> None:
    world.launch(stop={"trials": 2})
    with pytest.raises(InputError, match=re.escape(message)):
        world.launch(study="warm", **{"warm_start": {"study": "matching"}, **changes})


def test_trials_of_an_older_version_still_inform_the_sampler(world: World) -> None:
    """With ranges of its own and nothing but the old trials, a new version starts to learn."""
    changes: dict[str, Any] = {"baseline": None, "enqueue": []}
    world.launch(stop={"trials": 6}, **changes)
    search = {**STUDY["search"], "parallelism.n_envs": {"kind": "pow2", "low": 2, "high": 8}}
    trials = world.launch(search=search, stop={"trials": 9}, new_version=True, **changes)
    assert [trial.origin for trial in trials[6:]] == ["sampler"] * 3
    assert all(2 <= trial.n_envs <= 8 for trial in trials[6:])


def test_trials_of_another_budget_are_neither_told_nor_on_the_front(world: World) -> None:
    world.launch(stop={"trials": 4})
    longer = {**STUDY["trial"], "budget": {"env_steps": 1280}}
    trials = world.launch(trial=longer, stop={"trials": 6}, new_version=True)
    assert [trial.budget_env_steps for trial in trials] == [640] * 4 + [1280] * 2
    assert [trial.origin for trial in trials[4:]] == ["startup"] * 2
    assert world.sql("SELECT DISTINCT budget_env_steps FROM pareto_front") == [(1280,)]


class Contending(InlineExecutor):
    """Says of each run, in turn, whether others took its cores; of the rest, that none did."""

    def __init__(self, *contended: bool) -> None:
        super().__init__()
        self.contended = iter(contended)

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        return [
            RunEvent(
                run_id,
                replace(
                    event,
                    contended=(contended := next(self.contended, False)),
                    foreign_cpu_share=0.25 if contended else 0.0,
                    steps_per_second=100.0 if contended else 1000.0,
                    updates=100,  # as on a machine that is not busy with other tests
                ),
            )
            if isinstance(event, RunResult)
            else RunEvent(run_id, event)
            for run_id, event in super().events(timeout_seconds)
        ]


TIMED: dict[str, Any] = {
    "trial": {**STUDY["trial"], "budget": {"seconds": 0.05}},
    "replicate": {"share": 0},
    "baseline": None,
    "enqueue": [],
}


def test_a_contended_run_is_made_again_and_its_figures_do_not_count(world: World) -> None:
    trials = world.launch(executor=Contending(True), stop={"trials": 2}, **TIMED)
    assert world.sql("SELECT trial_id, kind, attempt, contended FROM runs ORDER BY run_id") == [
        (1, "first", 1, True),
        (1, "retry", 2, False),
        (2, "first", 1, False),
    ]
    assert world.sql("SELECT count(DISTINCT seed) FROM runs WHERE trial_id = 1") == [(1,)]
    assert [trial.steps_per_second for trial in trials] == [1000.0, 1000.0]
    assert not any(trial.contended for trial in trials)
    assert world.sql("SELECT detail FROM events WHERE kind = 'retried'") == [
        ("others took 25.0% of its cores' time",)
    ]


def test_a_contended_confirmation_is_made_again(world: World) -> None:
    world.launch(executor=Contending(), stop={"trials": 1}, **TIMED)
    world.confirm(ONE, executor=Contending(True), **TIMED)
    assert world.tests() == [(1, "confirm", "COMPLETED"), (2, "retry", "COMPLETED")]
    assert world.sql("SELECT n_test_runs, test_steps_per_second FROM trial_results") == [
        (1, 1000.0)
    ]
    world.confirm(ONE, **TIMED)
    assert len(world.tests()) == 2


def test_a_run_that_stays_contended_is_kept_and_marked(world: World) -> None:
    trials = world.launch(executor=Contending(True, True), stop={"trials": 1}, **TIMED)
    assert world.sql("SELECT count(*) FROM runs") == [(2,)]
    assert trials[0].status == "COMPLETED"
    assert trials[0].contended
    assert trials[0].steps_per_second == 100.0
    # A machine that is never quiet has a front too.
    assert world.sql("SELECT number, contended FROM pareto_front") == [(1, True)]


def test_a_busy_machine_does_not_double_the_study(world: World) -> None:
    world.launch(executor=Contending(*[True] * 99), stop={"trials": 8}, **TIMED)
    assert world.sql("SELECT kind, count(*) FROM runs GROUP BY kind ORDER BY kind") == [
        ("first", 8),
        ("retry", 3),
    ]


def test_contention_decides_nothing_under_a_budget_of_env_steps(world: World) -> None:
    world.launch(executor=Contending(True, True), stop={"trials": 2})
    assert world.sql("SELECT count(*) FROM runs WHERE kind = 'retry'") == [(0,)]


class Moving(InlineExecutor):
    """Says that the runs were made on machines of these classes, in turn; the rest on the last."""

    def __init__(self, *classes: str) -> None:
        super().__init__()
        self.classes = list(classes)

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        return [
            RunEvent(run_id, replace(event, host=replace(event.host, hardware_class=self._next())))
            if isinstance(event, TrainingStarted)
            else RunEvent(run_id, event)
            for run_id, event in super().events(timeout_seconds)
        ]

    def _next(self) -> str:
        return self.classes.pop(0) if len(self.classes) > 1 else self.classes[0]


MIXED = "SELECT detail FROM events WHERE kind = 'mixed_hardware'"


def test_a_sampler_that_learns_from_different_hardware_is_told_of_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.launch(executor=Moving("base", "old", "new"))
    said = "the sampler takes trials of different hardware as if it were one: new, old"
    assert world.sql(MIXED) == [(said,)]
    assert [record.message for record in caplog.records if said in record.message] == [
        f"{said}; see docs/cluster.md"
    ]
    world.launch(executor=Moving("old"), stop={"trials": 6})
    assert world.sql(MIXED) == [(said,)]
    world.launch(executor=Moving("third"), stop={"trials": 7})
    assert world.sql(MIXED) == [(said,), (f"{said}, third",)]


def test_hardware_does_not_matter_where_nothing_depends_on_its_speed(world: World) -> None:
    objectives = {"final_return": "maximize", "training_return": "maximize"}
    world.launch(executor=Moving("base", "old", "new"), objectives=objectives)
    assert world.sql("SELECT count(*) FROM hosts") == [(3,)]
    assert world.sql(MIXED) == []


def test_each_run_has_a_bottleneck_that_sql_can_group_by(world: World) -> None:
    coarse = {**STUDY["trial"], "budget": {"env_steps": 64}}
    world.launch(trial=coarse, stop={"trials": 3})
    assert world.sql("SELECT bottleneck, count(*) FROM trial_results GROUP BY bottleneck") == [
        ("too_coarse", 3)
    ]
    ((advice,),) = world.sql("SELECT advice FROM runs ORDER BY run_id LIMIT 1")
    assert advice.startswith("smaller parallelism.n_envs x algorithm.n_steps than")


def test_changed_constraints_judge_the_old_trials_anew(world: World) -> None:
    assert all(trial.feasible for trial in world.launch())
    strict = {"final_return": {"min": 1000.0}}
    trials = world.launch(constraints=strict, new_version=True)
    assert not any(trial.feasible for trial in trials)
    assert world.sql("SELECT count(*) FROM trial_constraints WHERE name = 'final_return.min'") == [
        (5,)
    ]
    assert all(trial.feasible for trial in world.launch(new_version=True))
    assert world.sql("SELECT count(*) FROM runs") == [(5,)]  # nothing had to be run for it


def test_importances_are_stored_once_there_are_trials_to_tell_from(world: World) -> None:
    world.launch()
    assert world.sql("SELECT count(*) FROM importances") == [(0,)]
    world.launch(stop={"trials": 20})
    rows = world.sql(
        "SELECT objective, count(*), round(sum(importance), 6) FROM importances "
        "WHERE at = (SELECT max(at) FROM importances) GROUP BY objective ORDER BY objective"
    )
    assert [row[:2] for row in rows] == [("final_return", 2), ("steps_per_second", 2)]
    assert all(row[2] in (0.0, 1.0) for row in rows)
    ((times,),) = world.sql("SELECT count(DISTINCT at) FROM importances")
    assert times >= 2  # while it ran, too


class Untrained(InlineExecutor):
    """Trials that return what they are told to, and an untrained policy too; None: as they do."""

    def __init__(self, untrained: float | None, *returns: float) -> None:
        super().__init__()
        self.untrained, self.returns = untrained, list(returns)
        self.asked: list[bool] = []

    def submit(self, run_id: int, spec: TrialSpec, *, untrained: bool = False) -> None:
        self.asked.append(untrained)
        super().submit(run_id, spec, untrained=untrained)

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        return [
            RunEvent(run_id, self._told(event)) for run_id, event in super().events(timeout_seconds)
        ]

    def _told(self, event: TrialEvent) -> TrialEvent:
        match event:
            case TrainingStarted(untrained_return=float()) if self.untrained is not None:
                return replace(event, untrained_return=self.untrained)
            case RunResult() if self.returns:
                return replace(event, final_return=self.returns.pop(0))
        return event


def test_a_trial_that_does_not_beat_the_untrained_policy_stays_off_the_front(world: World) -> None:
    executor = Untrained(5.0, 4.0, 5.0, 6.0)
    trials = world.launch(executor=executor, must_learn=True, stop={"trials": 3})
    assert executor.asked == [True, False, False]  # once a study
    assert [trial.feasible for trial in trials] == [False, False, True]
    assert world.sql("SELECT untrained_return FROM study_versions") == [(5.0,)]
    shown = world.sql(
        "SELECT value > 0 FROM trial_constraints WHERE name = 'final_return.untrained' "
        "ORDER BY trial_id"
    )
    assert [bool(violated) for (violated,) in shown] == [True, True, False]

    again = Untrained(5.0, 4.0)
    trials = world.launch(executor=again, must_learn=True, stop={"trials": 4})
    assert (again.asked, trials[-1].feasible) == ([False], False)  # known from before


def test_an_untrained_policy_that_is_measured_late_judges_what_has_ended_before(
    world: World,
) -> None:
    class Silent(Untrained):
        def _told(self, event: TrialEvent) -> TrialEvent:
            if isinstance(event, TrainingStarted):
                event = replace(event, untrained_return=None)
            return super()._told(event)

    silent = Silent(None, 4.0, 6.0)
    trials = world.launch(executor=silent, must_learn=True, stop={"trials": 2})
    assert silent.asked == [True, True]
    assert [trial.feasible for trial in trials] == [True, True]
    trials = world.launch(executor=Untrained(5.0, 6.0), must_learn=True, stop={"trials": 3})
    assert [trial.feasible for trial in trials] == [False, True, True]


def test_a_study_that_need_not_learn_measures_no_untrained_policy(world: World) -> None:
    executor = Untrained(5.0, 4.0)
    (trial,) = world.launch(executor=executor, stop={"trials": 1})
    assert (executor.asked, trial.feasible) == ([False], True)


def test_a_file_that_another_release_hashed_otherwise_continues_its_study(world: World) -> None:
    world.launch(stop={"trials": 1})
    with Store.open(world.url) as store, store._transaction() as connection:
        connection.exec_driver_sql("UPDATE study_versions SET spec_sha256 = 'of another release'")
    assert len(world.launch(stop={"trials": 1})) == 1


class TwoCores:
    """Trials that take no time and end when they are told to: the last that began, first."""

    total_cores = 2

    def __init__(self) -> None:
        self.running: dict[int, int] = {}
        self.began: list[int] = []
        """Cores of each run, in order."""

    def fits(self, spec: TrialSpec) -> bool:
        return sum(self.running.values()) + spec.parallelism.cores <= self.total_cores

    def lacking(self, spec: TrialSpec) -> Resources | None:
        return lacking(Need(spec.parallelism.cores), [Resources(self.total_cores)])

    def submit(self, run_id: int, spec: TrialSpec, *, untrained: bool = False) -> None:
        self.running[run_id] = spec.parallelism.cores
        self.began.append(spec.parallelism.cores)

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        run_id, _ = self.running.popitem()
        result = replace(
            lost_result(RunStatus.COMPLETED, "it took no time"),
            final_return=1.0,
            steps_per_second=1.0,
        )
        return [RunEvent(run_id, result)]

    def notices(self) -> list[Notice]:
        return []

    def stop(self) -> None: ...

    def prune(self, run_id: int, reason: str) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("asked", "began"),
    [
        ([2, 1, 1], [1, 1, 1, 2]),  # the smaller ones use what the larger cannot
        ([2, 2, 2, 1], [1, 2, 2, 2, 1]),  # until too many of those wait
    ],
)
def test_smaller_trials_use_the_cores_that_a_larger_one_waits_for(
    world: World, asked: list[int], began: list[int]
) -> None:
    executor = TwoCores()
    enqueue = [
        {"parallelism.cores": cores, "algorithm.optimizer.learning_rate": 1e-3 + 1e-4 * i}
        for i, cores in enumerate(asked)
    ]
    search = {
        **STUDY["search"],
        "parallelism.cores": {"kind": "choice", "choices": [1, 2]},
    }
    del search["parallelism.n_envs"]
    world.launch(
        executor=executor,
        stop={"trials": 1 + len(asked)},
        search=search,
        baseline={"set": {"parallelism.cores": 1}},
        enqueue=enqueue,
    )
    assert executor.began == began
