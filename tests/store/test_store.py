"""The writer, on both databases."""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

from sweeper.core.records import RunResult, RunStatus
from sweeper.store import queries
from sweeper.store.rows import TrialRow
from sweeper.store.store import Store
from sweeper.store.versions import StudyChangedError
from sweeper.trial.spec import TrialSpec


def test_a_study_is_made_once_and_continued_afterwards(store, reader, example, calendar):
    made = example.study(store, target_trials=16)
    begun = calendar()
    calendar.advance(60)
    again = example.study(store, target_trials=32)
    assert (made.created, again.created) == (True, False)
    assert replace(made, created=False) == again
    row = queries.study(reader, "a study")
    assert row.created_at == begun
    assert row.target_trials == 32
    assert row.env == "CartPole-v1"
    assert row.budget_seconds == 10.0
    assert row.budget_env_steps is None
    assert list(row.objectives.items()) == list(example.objectives.items())
    assert row.constraints == {"peak_rss_bytes": {"max": 4e9}}
    assert (row.n_trials, row.last_event_at) == (0, None)


def test_a_changed_file_is_refused_with_the_stored_one_unless_a_version_is_asked_for(
    store, reader, example
):
    first = example.study(store)
    example.trial(store, first)
    changed = {"spec_yaml": "study: changed\n", "spec_sha256": "2" * 64}
    with pytest.raises(StudyChangedError, match="'a study'") as caught:
        example.study(store, **changed)
    assert caught.value.stored_yaml == "study: a study\n"
    assert caught.value.version == 1
    second = example.study(store, **changed, new_version=True)
    assert (second.study_id, second.version_number) == (first.study_id, 2)
    assert example.study(store, **changed) == second
    assert queries.study(reader, "a study").spec_yaml == "study: changed\n"
    assert queries.study(reader, "a study").version == 2


def test_a_changed_file_takes_the_place_of_one_that_no_trial_was_asked_for_under(
    store, reader, example
):
    first = example.study(store)
    changed = {"spec_yaml": "study: changed\n", "spec_sha256": "2" * 64, "env": "Acrobot-v1"}
    assert replace(example.study(store, **changed), created=True) == first
    row = queries.study(reader, "a study")
    assert (row.version, row.spec_yaml, row.env) == (1, "study: changed\n", "Acrobot-v1")


def test_trials_are_numbered_within_their_study(store, example):
    one, two = example.study(store, "one"), example.study(store, "two")
    numbers = [example.trial(store, ref).number for ref in (one, one, two, one)]
    assert numbers == [1, 2, 1, 3]


def test_a_trial_spells_out_its_configuration(store, reader, example, calendar):
    ref = example.study(store)
    config = example.config(parallelism={"n_envs": 6, "envs_per_worker": 4, "cores": 2})
    params = {"a.int": 8, "a.float": 3e-4, "a.bool": True, "a.none": None, "a.text": "8"}
    added = example.trial(store, ref, config=config, params=params, origin="baseline", sampler=None)
    row = queries.trial(reader, ref.study_id, added.number)
    assert row.status == "QUEUED"
    assert (row.origin, row.sampler, row.feasible) == ("baseline", None, None)
    assert row.asked_at == calendar()
    assert row.params == params
    assert {name: type(value) for name, value in row.params.items()} == {
        name: type(value) for name, value in params.items()
    }
    assert TrialSpec.model_validate_json(row.config_json) == config
    assert (row.n_envs, row.envs_per_worker, row.n_workers, row.cores) == (6, 4, 2, 2)
    assert (row.n_steps, row.batch_size, row.minibatch_size) == (128, 768, 192)
    assert (row.algorithm, row.optimizer, row.schedule) == ("ppo", "adam", "constant")
    assert (row.learning_rate, row.clip_range) == (3e-4, 0.2)
    sha = hashlib.sha256(config.model_dump_json().encode()).hexdigest()
    with reader.connect() as connection:
        stored = connection.exec_driver_sql("SELECT config_sha256 FROM trials").scalar()
    assert stored == sha


def test_an_actor_critic_trial_is_one_minibatch_and_one_epoch(store, reader, example):
    ref = example.study(store)
    config = example.config(algorithm={"kind": "a2c"})
    added = example.trial(store, ref, config=config)
    row = queries.trial(reader, ref.study_id, added.number)
    assert (row.n_minibatches, row.n_epochs, row.clip_range) == (1, 1, None)


def test_a_learner_of_the_users_own_has_null_for_what_it_may_not_have(store, reader, example):
    ref = example.study(store)
    config = TrialSpec.model_validate(
        example.config().model_dump() | {"algorithm": {"kind": "agents:Guessing", "n_steps": 3}}
    )
    row = queries.trial(reader, ref.study_id, example.trial(store, ref, config=config).number)
    assert (row.algorithm, row.n_envs) == ("agents:Guessing", config.parallelism.n_envs)
    of_ours = (row.optimizer, row.schedule, row.learning_rate, row.n_steps, row.n_minibatches)
    of_ours += (row.n_epochs, row.batch_size, row.minibatch_size, row.gamma, row.gae_lambda)
    assert {*of_ours, row.clip_range, row.entropy_coef} == {None}
    assert TrialSpec.model_validate_json(row.config_json) == config


def test_a_trial_of_stable_baselines3_is_told_in_our_terms(store, reader, example):
    ref = example.study(store)

    def told(**algorithm):
        config = TrialSpec.model_validate(
            example.config(parallelism={"n_envs": 3}).model_dump() | {"algorithm": algorithm}
        )
        added = example.trial(store, ref, config=config)
        return queries.trial(reader, ref.study_id, added.number)

    row = told(kind="sb3", n_steps=50, batch_size=64, ent_coef=0.1)
    assert (row.algorithm, row.optimizer, row.schedule) == ("sb3", "adam", "constant")
    assert (row.batch_size, row.minibatch_size, row.n_minibatches) == (150, 64, 3)
    assert (row.learning_rate, row.entropy_coef, row.n_epochs) == (3e-4, 0.1, 10)
    row = told(kind="sb3_a2c")
    assert (row.algorithm, row.optimizer, row.clip_range) == ("sb3_a2c", "rmsprop", None)
    assert (row.batch_size, row.minibatch_size, row.n_minibatches) == (15, 15, 1)
    assert (row.learning_rate, row.gae_lambda, row.n_epochs) == (7e-4, 1.0, 1)
    assert told(kind="sb3_a2c", use_rms_prop=False).optimizer == "adam"


def test_figures_of_a_trial_are_of_tuning_seeds_measured_alone(store, reader, example):
    ref = example.study(store)
    trial = example.trial(store, ref)

    def run(seed: int, final_return: float, kind: str = "tuning", contended: bool = False) -> None:
        run_id = example.run(store, trial, kind="replicate", seed=seed, seed_kind=kind)
        result = example.result(final_return=final_return)
        store.finish_run(run_id, result, feasible=True)
        with store._transaction() as connection:
            connection.execute(
                text("UPDATE runs SET contended = :c WHERE run_id = :r"),
                {"c": contended, "r": run_id},
            )

    def row() -> TrialRow:
        return queries.trial(reader, ref.study_id, trial.number)

    run(1, 100.0, contended=True)
    assert (row().contended, row().n_runs, row().final_return) == (True, 1, 100.0)
    run(2, 200.0)
    run(3, 400.0)
    run(4, 60.0, kind="test")
    run(5, 70.0, kind="test")
    assert (row().contended, row().n_runs, row().final_return) == (False, 2, 300.0)
    assert (row().n_test_runs, row().test_final_return) == (2, 65.0)
    with reader.connect() as connection:
        spread = connection.execute(text("SELECT * FROM run_spreads WHERE seed_kind = 'test'"))
        (found,) = spread.mappings().all()
    assert (found["n_runs"], found["final_return_variance"]) == (2, pytest.approx(50.0))
    assert (found["final_return_lowest"], found["final_return_highest"]) == (60.0, 70.0)


def test_trials_that_changed_are_found_by_the_change_count(store, reader, example):
    ref, other = example.study(store), example.study(store, "another")
    first, second = example.trial(store, ref), example.trial(store, ref)

    def since(count: int) -> list[int]:
        return [row.number for row in queries.trials(reader, ref.study_id, since=count)]

    def count() -> int:
        return int(queries.change_token(reader, ref.study_id).rsplit(".", 1)[1])

    assert since(0) == [first.number, second.number]
    before = count()
    assert since(before) == []
    run_id = example.run(store, second)
    example.trial(store, other)
    assert since(before) == [second.number]
    before = count()
    store.add_measurements(run_id, [example.measurement(10, 0.1)])
    assert since(before) == []  # a curve grew; nothing that a trial's row says
    store.finish_run(run_id, example.result(), feasible=True)
    third = example.trial(store, ref)
    assert since(before) == [second.number, third.number]
    assert since(before) == [t.number for t in queries.trials(reader, ref.study_id)][1:]


def test_a_finished_run_carries_every_figure_of_its_result(store, reader, example, calendar):
    ref = example.study(store)
    trial = example.trial(store, ref)
    run_id = example.run(store, trial)
    (running,) = queries.runs(reader, trial.trial_id)
    assert (running.status, running.started_at, running.ended_at) == ("RUNNING", calendar(), None)
    assert running.hostname == "node-1"
    calendar.advance(12)
    episodes = [example.evaluation(0), example.evaluation(0, deterministic=False)]
    result = example.result()
    assert store.finish_run(run_id, result, feasible=True, evaluations=episodes)
    (run,) = queries.runs(reader, trial.trial_id)
    same = {field.name for field in fields(RunResult)} & {field.name for field in fields(run)}
    assert len(same) >= 21
    for name in same - {"status", "leased_cores"}:
        assert getattr(run, name) == getattr(result, name), name
    assert run.status == "COMPLETED"
    assert run.ended_at == calendar()
    assert (run.rollout_seconds, run.inference_seconds, run.env_wait_seconds) == (6.0, 3.0, 2.0)
    assert (run.update_seconds, run.optimizer_seconds) == (3.0, 0.5)
    assert (run.normalize_seconds, run.other_seconds) == (0.25, 0.751)
    assert run.leased_cores == "2,3"
    assert [row.deterministic for row in queries.evaluations(reader, run_id)] == [True, False]
    row = queries.trial(reader, ref.study_id, trial.number)
    assert (row.status, row.feasible, row.n_runs) == ("COMPLETED", True, 1)
    assert (row.final_return, row.ended_at) == (500.0, calendar())


def test_the_end_of_a_run_is_written_once(store, reader, example):
    ref = example.study(store)
    trial = example.trial(store, ref)
    run_id = example.run(store, trial)
    assert store.finish_run(run_id, example.result(), feasible=True)
    failed = example.result(RunStatus.ERROR, final_return=None)
    late = [example.evaluation(5)]
    assert not store.finish_run(run_id, failed, feasible=False, evaluations=late)
    (run,) = queries.runs(reader, trial.trial_id)
    assert (run.status, run.final_return) == ("COMPLETED", 500.0)
    assert queries.evaluations(reader, run_id) == []
    assert queries.trial(reader, ref.study_id, 1).feasible is True


def test_a_run_cannot_end_as_running(store, example):
    run_id = example.run(store, example.trial(store, example.study(store)))
    with pytest.raises(ValueError, match="RUNNING"):
        store.finish_run(run_id, example.result(RunStatus.RUNNING), feasible=None)


def test_runs_of_a_dead_launcher_become_lost_and_a_late_result_is_accepted_once(
    store, reader, example
):
    ref, other = example.study(store), example.study(store, "another")
    queued, running, done = (example.trial(store, ref) for _ in range(3))
    run_id = example.run(store, running)
    store.finish_run(example.run(store, done), example.result(), feasible=True)
    elsewhere = example.trial(store, other)
    example.run(store, elsewhere)

    assert store.mark_lost(ref.study_id, "its launcher died") == [run_id]
    assert store.mark_lost(ref.study_id, "its launcher died") == []
    rows = queries.trials(reader, ref.study_id)
    assert [row.status for row in rows] == ["QUEUED", "LOST", "COMPLETED"]
    assert rows[1].reason == "its launcher died"
    assert queries.trials(reader, other.study_id)[0].status == "RUNNING"

    assert not store.finish_run(run_id, example.result(RunStatus.LOST), feasible=None)
    assert store.finish_run(run_id, example.result(), feasible=True)
    assert not store.finish_run(run_id, example.result(), feasible=True)
    row = queries.trial(reader, ref.study_id, running.number)
    assert (row.status, row.reason, row.n_runs) == ("COMPLETED", None, 1)
    assert queries.trial(reader, ref.study_id, queued.number).status == "QUEUED"


def test_a_trial_follows_its_runs(store, reader, example):
    ref = example.study(store)
    trial = example.trial(store, ref)

    def status() -> str:
        return queries.trial(reader, ref.study_id, 1).status

    first = example.run(store, trial)
    assert status() == "RUNNING"
    store.finish_run(first, example.result(RunStatus.OOM), feasible=None)
    assert status() == "OOM"
    assert queries.trial(reader, ref.study_id, 1).reason == "it was OOM"
    retry = example.run(store, trial, kind="retry", attempt=2)
    assert status() == "RUNNING"
    store.finish_run(retry, example.result(final_return=100.0), feasible=True)
    assert status() == "COMPLETED"
    replicate = example.run(store, trial, kind="replicate", seed=1)
    assert status() == "COMPLETED"
    store.finish_run(replicate, example.result(final_return=200.0), feasible=None)
    row = queries.trial(reader, ref.study_id, 1)
    assert (row.status, row.n_runs, row.final_return) == ("COMPLETED", 2, 150.0)
    assert row.feasible is True


def test_a_learning_curve_is_thinned_as_it_arrives_and_replays_change_nothing(
    store, reader, example
):
    run_id = example.run(store, example.trial(store, example.study(store)))
    rows = [example.measurement(100 * i, i / 5000) for i in range(1, 5001)]
    for start in range(0, 5000, 70):
        store.add_measurements(run_id, rows[start : start + 70])
    stored = queries.measurements(reader, run_id)
    assert 300 <= len(stored) <= 301
    assert (stored[0].env_steps, stored[-1].env_steps) == (100, 500_000)
    gaps = np.diff([row.progress for row in stored[:-1]])
    assert gaps.max() < 2 / 300
    store.add_measurements(run_id, rows[100:200])
    store.add_measurements(run_id, [])
    assert queries.measurements(reader, run_id) == stored


def test_a_measurement_keeps_every_figure_and_numpy_numbers_stay_numbers(store, reader, example):
    run_id = example.run(store, example.trial(store, example.study(store)))
    row = example.measurement(2048, 0.5, rss_bytes=np.int64(2**40), entropy=np.float32(0.5))
    store.add_measurements(run_id, [row])
    (stored,) = queries.measurements(reader, run_id)
    for name in row.__slots__:
        assert getattr(stored, name) == getattr(row, name), name
    assert type(stored.rss_bytes) is int


def test_what_is_not_finite_is_stored_as_null(store, reader, example):
    run_id = example.run(store, example.trial(store, example.study(store)))
    row = example.measurement(1, 0.1, policy_loss=math.nan, value_loss=math.inf)
    store.add_measurements(run_id, [row])
    (stored,) = queries.measurements(reader, run_id)
    assert (stored.policy_loss, stored.value_loss) == (None, None)


def test_an_evaluation_episode_is_written_once(store, reader, example):
    run_id = example.run(store, example.trial(store, example.study(store)))
    store.add_evaluations(run_id, [example.evaluation(0), example.evaluation(1)])
    store.add_evaluations(run_id, [example.evaluation(1, episode_return=0.0)])
    stored = queries.evaluations(reader, run_id)
    assert [(row.episode, row.episode_return) for row in stored] == [(0, 500.0), (1, 500.0)]
    assert (stored[0].seed, stored[0].length, stored[0].truncated) == (1000, 500, True)


def test_equal_hosts_are_one_row_and_an_upgrade_makes_another(store, reader, example):
    first = store.record_host(example.host)
    assert store.record_host(example.host) == first
    upgraded = replace(example.host, torch="2.12.0")
    assert store.record_host(upgraded) != first
    assert [row.torch for row in queries.hosts(reader)] == ["2.11.0", "2.12.0"]
    assert queries.hosts(reader)[0].memory_bytes == 2**40


def test_a_run_may_learn_its_host_at_its_end(store, reader, example):
    trial = example.trial(store, example.study(store))
    run_id = example.run(store, trial, host=None)
    store.finish_run(run_id, example.result(), feasible=True, host=example.host)
    assert queries.runs(reader, trial.trial_id)[0].hostname == "node-1"


def test_events_are_listed_newest_first(store, reader, example, calendar):
    ref = example.study(store)
    trial = example.trial(store, ref)
    calendar.advance(1)
    store.add_event("lost", study_id=ref.study_id, detail="node-1 is gone")
    newest, oldest = queries.events(reader, ref.study_id)
    assert (newest.kind, newest.detail, newest.at) == ("lost", "node-1 is gone", calendar())
    assert (oldest.kind, oldest.trial_id) == ("asked", trial.trial_id)
    assert queries.events(reader, ref.study_id, limit=1) == [newest]
    assert queries.study(reader, None).last_event_at == calendar()


def test_violations_of_constraints_are_rows(store, reader, example):
    ref = example.study(store)
    run_id = example.run(store, example.trial(store, ref))
    violations = {"peak_rss_bytes.max": 1.5e9}
    store.finish_run(run_id, example.result(), feasible=False, violations=violations)
    with reader.connect() as connection:
        rows = connection.exec_driver_sql("SELECT name, value FROM trial_constraints").all()
    assert rows == [("peak_rss_bytes.max", 1.5e9)]


def test_a_failed_write_leaves_nothing_behind(store, reader, example):
    ref = example.study(store)
    run_id = example.run(store, example.trial(store, ref))
    before = queries.change_token(reader, ref.study_id)
    broken = [example.evaluation(0, length=None)]
    with pytest.raises(IntegrityError):
        store.finish_run(run_id, example.result(), feasible=True, evaluations=broken)
    assert queries.trial(reader, ref.study_id, 1).status == "RUNNING"
    assert queries.change_token(reader, ref.study_id) == before


def test_writers_of_two_processes_number_trials_without_gaps_or_repeats(
    store, reader, example, url
):
    ref = example.study(store)

    def add(_: int) -> list[int]:
        with Store.open(url) as another:
            return [example.trial(another, ref).number for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for added in pool.map(add, range(4)) for number in added]
    assert sorted(numbers) == list(range(1, 41))


def test_two_writers_may_make_a_database_at_once(url, tmp_path, example):
    (tmp_path / "a folder").mkdir()

    def make(_: int) -> int:
        with Store.open(url) as store:
            return example.study(store).study_id

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(4))) == [1] * 4


@pytest.mark.system
def test_a_restarted_server_is_found_again(postgres_url, example):
    with Store.open(postgres_url) as store:
        ref = example.study(store)
        killer = create_engine(postgres_url)
        with killer.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
            )
        killer.dispose()
        assert example.trial(store, ref).number == 1


def test_importances_told_twice_at_one_moment_are_the_last(store, reader, example, calendar):
    study = example.study(store).study_id
    store.add_importances(study, {"final_return": {"a": 0.25, "b": 0.75}})
    store.add_importances(study, {"final_return": {"a": 0.5}})
    calendar.advance(1)
    store.add_importances(study, {"final_return": {"a": 1.0}})
    with reader.connect() as connection:
        rows = connection.execute(text("SELECT path, importance FROM importances ORDER BY at"))
        assert [tuple(row) for row in rows] == [("a", 0.5), ("a", 1.0)]
