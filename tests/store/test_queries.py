"""The SELECTs and the views, on both databases."""

from __future__ import annotations

import random
import threading

import pytest

from sweeper.core.clock import BudgetSpec
from sweeper.core.errors import DatabaseError, InputError
from sweeper.core.records import RunStatus
from sweeper.store import queries
from sweeper.store.sql import run_sql


def rows(reader, sql):
    result = run_sql(reader, sql)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def test_studies_are_listed_the_last_launched_first(store, reader, example, calendar):
    assert queries.studies(reader) == []
    example.study(store, "old")
    calendar.advance(1)
    ref = example.study(store, "new")
    example.finished(store, ref)
    example.trial(store, ref)
    calendar.advance(1)
    listed = queries.studies(reader)
    assert [row.name for row in listed] == ["new", "old"]
    assert listed[0].status_counts == {"COMPLETED": 1, "QUEUED": 1}
    assert listed[0].n_trials == 2
    example.study(store, "old")
    assert queries.study(reader, None).name == "old"
    assert queries.study(reader, "new") == listed[0]


def test_an_unknown_study_is_answered_with_the_nearest_and_the_others(store, reader, example):
    with pytest.raises(InputError, match="no study in this database yet"):
        queries.study(reader, "anything")
    example.study(store, "hopper-speed")
    example.study(store, "cartpole")
    with pytest.raises(InputError, match="did you mean 'hopper-speed'") as caught:
        queries.study(reader, "hoper-sped")
    assert "'cartpole'" in str(caught.value)
    with pytest.raises(InputError, match="there are") as caught:
        queries.study(reader, "<script>")
    assert "did you mean" not in str(caught.value)


def test_an_unknown_trial_is_answered_with_those_there_are(store, reader, example):
    ref = example.study(store)
    with pytest.raises(InputError, match="no trial 1; it has none yet"):
        queries.trial(reader, ref.study_id, 1)
    example.trial(store, ref)
    example.trial(store, ref)
    with pytest.raises(InputError, match="no trial 7; it has 1 to 2"):
        queries.trial(reader, ref.study_id, 7)


def test_the_change_token_tells_every_write_and_only_of_its_study(store, reader, example):
    ref, other = example.study(store), example.study(store, "another")
    seen = [queries.change_token(reader, ref.study_id)]
    untouched = queries.change_token(reader, other.study_id)

    def changed(_result: object) -> None:
        seen.append(queries.change_token(reader, ref.study_id))

    assert queries.change_token(reader, ref.study_id) == seen[0]
    trial = example.trial(store, ref)
    changed(trial)
    run_id = example.run(store, trial)
    changed(run_id)
    changed(store.add_measurements(run_id, [example.measurement(10, 0.1)]))
    changed(store.add_evaluations(run_id, [example.evaluation(0)]))
    changed(store.finish_run(run_id, example.result(), feasible=True))
    changed(store.add_event("finished", study_id=ref.study_id))
    example.run(store, example.trial(store, ref))
    changed(None)
    changed(store.mark_lost(ref.study_id, "gone"))
    changed(example.study(store, target_trials=99))
    assert len(set(seen)) == len(seen)
    assert queries.change_token(reader, other.study_id) == untouched


def test_metrics_of_a_trial_are_means_over_its_completed_runs(store, reader, example):
    ref = example.study(store)
    trial = example.trial(store, ref)
    outcomes = [
        (RunStatus.COMPLETED, {"final_return": 10.0, "env_steps": 3, "seconds_to_threshold": None}),
        (RunStatus.COMPLETED, {"final_return": 20.0, "env_steps": 4, "seconds_to_threshold": 2.0}),
        (RunStatus.DIVERGED, {"final_return": -1e9, "env_steps": 99}),
    ]
    for seed, (status, figures) in enumerate(outcomes):
        run_id = example.run(store, trial, kind="replicate", seed=seed)
        store.finish_run(run_id, example.result(status, **figures), feasible=True)
    (row,) = queries.trials(reader, ref.study_id)
    assert (row.n_runs, row.status) == (2, "COMPLETED")
    assert (row.final_return, row.env_steps, row.seconds_to_threshold) == (15.0, 3.5, 2.0)
    assert isinstance(row.env_steps, float)
    (view,) = rows(reader, "SELECT study, params, final_return, n_runs FROM trial_results")
    assert view == {"study": "a study", "params": None, "final_return": 15.0, "n_runs": 2}


def test_trial_results_reads_as_text_what_was_searched(store, reader, example):
    params = {"algorithm.n_steps": 64, "x": None, "algorithm.optimizer.kind": "adam"}
    example.trial(store, example.study(store), params=params)
    (row,) = rows(reader, "SELECT params FROM trial_results")
    assert set(row["params"].split(", ")) == {
        "algorithm.n_steps=64",
        "x=null",
        "algorithm.optimizer.kind=adam",
    }


@pytest.mark.parametrize(
    "objectives",
    [
        {"final_return": "maximize", "steps_per_second": "maximize"},
        {"seconds_to_threshold": "minimize", "final_return": "maximize"},
        {"final_return": "maximize", "core_seconds": "minimize", "return_area": "maximize"},
    ],
)
def test_the_front_is_what_no_feasible_completed_trial_dominates(
    store, reader, example, objectives
):
    ref = example.study(store, objectives=objectives)
    other = example.study(store, "another")
    example.finished(store, other, **dict.fromkeys(objectives, 0.0))
    draw = random.Random(0)
    points = {}
    for _ in range(25):
        figures = {metric: float(draw.randrange(6)) for metric in objectives}
        points[example.finished(store, ref, **figures).number] = tuple(
            -figures[metric] if direction == "maximize" else figures[metric]
            for metric, direction in objectives.items()
        )
    best = {m: 99.0 if d == "maximize" else -99.0 for m, d in objectives.items()}
    example.finished(store, ref, **best, feasible=False)
    example.finished(store, ref, **best, feasible=None)
    example.finished(store, ref, **(best | {"final_return": None}))
    unfinished = example.run(store, example.trial(store, ref))
    store.finish_run(unfinished, example.result(RunStatus.TIMEOUT, **best), feasible=True)
    longer = example.trial(store, ref, config=example.config(budget={"seconds": 99.0}))
    store.finish_run(example.run(store, longer), example.result(**best), feasible=True)

    def dominates(a, b):
        return a != b and all(x <= y for x, y in zip(a, b, strict=True))

    front = {
        number
        for number, point in points.items()
        if not any(dominates(rival, point) for rival in points.values())
    }
    assert 1 < len(front) < 25
    found = rows(reader, "SELECT number FROM pareto_front WHERE study = 'a study'")
    assert {row["number"] for row in found} == front


def test_contended_trials_stand_aside_while_there_is_another(store, reader, example):
    ref = example.study(store)
    numbers = [
        example.finished(store, ref, final_return=r, steps_per_second=100.0, contended=c).number
        for r, c in ((900.0, True), (800.0, True))
    ]
    select = "SELECT number FROM pareto_front"
    assert [row["number"] for row in rows(reader, select)] == numbers[:1]
    quiet = example.finished(
        store, ref, final_return=1.0, steps_per_second=1.0, contended=False
    ).number
    assert [row["number"] for row in rows(reader, select)] == [quiet]


def test_the_front_of_a_budget_in_env_steps(store, reader, example):
    budget = BudgetSpec(env_steps=1000)
    ref = example.study(store, budget=budget)
    trial = example.trial(store, ref, config=example.config(budget={"env_steps": 1000}))
    store.finish_run(example.run(store, trial, budget=budget), example.result(), feasible=True)
    assert [row["number"] for row in rows(reader, "SELECT number FROM pareto_front")] == [1]


def test_objectives_keep_the_order_of_the_study_file(store, reader, example):
    objectives = {"steps_per_second": "maximize", "core_seconds": "minimize", "final_return": "x"}
    example.study(store, objectives=objectives)
    found = rows(reader, "SELECT * FROM study_objectives ORDER BY position")
    assert [(row["position"], row["metric"], row["direction"]) for row in found] == [
        (position, *objective) for position, objective in enumerate(objectives.items(), start=1)
    ]


def test_views_of_runs_name_the_study_and_the_trial(store, reader, example):
    trial = example.trial(store, example.study(store))
    run_id = example.run(store, trial, seed=7)
    store.add_measurements(run_id, [example.measurement(10, 0.5), example.measurement(20, 1.0)])
    store.finish_run(run_id, example.result(seconds_to_threshold=None), feasible=True)
    again = example.run(store, trial, kind="replicate", seed=8)
    store.finish_run(again, example.result(steps_per_second=1.0), feasible=True)

    curve = rows(reader, "SELECT * FROM learning_curves ORDER BY env_steps")
    assert [(row["study"], row["trial"], row["seed"]) for row in curve] == [("a study", 1, 7)] * 2
    assert [row["elapsed_seconds"] for row in curve] == [5.0, 10.0]

    reached = rows(reader, "SELECT * FROM time_to_threshold ORDER BY seed")
    assert [bool(row["reached"]) for row in reached] == [False, True]
    assert [row["seconds_to_threshold"] for row in reached] == [None, 6.5]

    (speed,) = rows(reader, "SELECT * FROM host_speeds")
    assert (speed["hostname"], speed["n_runs"], speed["steps_per_second"]) == ("node-1", 2, 5000.0)


def test_a_reader_sees_whole_transactions_while_the_store_writes(store, reader, example):
    ref = example.study(store)
    stop, seen, failures = threading.Event(), [], []

    def read() -> None:
        try:
            while not stop.is_set():
                for trial in queries.trials(reader, ref.study_id):
                    # Status, means and episodes are written together.
                    assert (trial.status == "COMPLETED") == (trial.final_return is not None)
                seen.append(queries.change_token(reader, ref.study_id))
        except BaseException as error:  # noqa: BLE001 - carried to the test's own thread
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(30):
            example.finished(store, ref)
    finally:
        stop.set()
        thread.join()
    assert not failures
    assert len(queries.trials(reader, ref.study_id)) == 30
    assert len(seen) > 1


def test_a_reader_cannot_write(store, reader):
    with pytest.raises(DatabaseError, match=r"read-?only"), reader.begin() as c:
        c.exec_driver_sql("DELETE FROM events")
