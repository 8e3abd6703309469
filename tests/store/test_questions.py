"""Every named query runs on both databases."""

from __future__ import annotations

import pytest

from sweeper.core.errors import InputError
from sweeper.core.records import RunStatus
from sweeper.store.questions import all_questions, question
from sweeper.store.sql import run_sql


@pytest.fixture
def filled(store, example):
    ref = example.study(store)
    for i, status in enumerate((RunStatus.COMPLETED, RunStatus.COMPLETED, RunStatus.DIVERGED)):
        trial = example.trial(store, ref, origin="baseline" if i == 0 else "sampler")
        for seed, kind in ((1, "tuning"), (2, "tuning"), (1, "test")):
            run_id = example.run(store, trial, kind="replicate", seed=seed, seed_kind=kind)
            store.add_measurements(run_id, [example.measurement(n, n / 10) for n in (2, 8)])
            result = example.result(status, final_return=100.0 * i + seed)
            store.finish_run(
                run_id, result, feasible=True, violations={"updates.min": 1.0}, bottleneck="learner"
            )
        store.add_event("asked", study_id=ref.study_id, trial_id=trial.trial_id)


def test_there_are_twenty_questions_and_none_is_asked_twice():
    questions = all_questions()
    assert len(questions) >= 20
    assert len({each.name for each in questions}) == len(questions)
    assert all(each.question.endswith(("?", ".", ")")) for each in questions)


@pytest.mark.parametrize("name", [each.name for each in all_questions()])
def test_question_is_answered_on_both_databases(filled, reader, name):
    result = run_sql(reader, question(name).sql)
    rows = list(result.rows)
    # One host and no importances: these two have nothing to say.
    assert rows or name in ("speed-of-hosts", "what-matters")
    assert all(len(row) == len(result.columns) for row in rows)


def test_unknown_question_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="did you mean 'failures'"):
        question("failure")
    with pytest.raises(InputError, match="--list"):
        question("zzz")
