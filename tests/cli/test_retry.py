"""`sweeper retry`: what it asks for, and of whom; and what of a confirmation it may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.conftest import Cli
from web.conftest import Recorder

from sweeper.cli.confirm import failures
from sweeper.cli.reading import reading
from sweeper.core.clock import BudgetSpec
from sweeper.core.records import RunStatus
from sweeper.store import launches, queries
from sweeper.store.store import Store


@pytest.fixture
def recorder(folder: Path) -> Iterator[Recorder]:
    url = f"sqlite:///{folder / 'sweeper.db'}"
    with Store.open(url) as store:
        yield Recorder(url, store)


def test_runs_of_the_search_and_of_a_confirmation_are_told_apart(
    cli: Cli, recorder: Recorder
) -> None:
    ref = recorder.study()
    recorder.trial(ref, status=RunStatus.ERROR)
    tested = recorder.trial(ref)
    recorder.again(tested, 9.0, 1.0, seed=1, seed_kind="test", status=RunStatus.OOM)
    answer = cli("retry", "cartpole", "--status", "ERROR,OOM")
    assert answer.out.splitlines() == [
        "run again by the next launch of 'cartpole': trial 1 (ERROR)",
        "run again by the next confirmation, on their budget: trial 2 (OOM)",
    ]
    said = cli("retry", "cartpole", "--status", "ERROR,OOM", "--json").json
    assert [(run["trial"], run["seed_kind"]) for run in said["retried"]] == [
        (1, "tuning"),
        (2, "test"),
    ]


def test_what_failed_of_a_confirmation_is_told_for_its_budget_alone(
    cli: Cli, recorder: Recorder
) -> None:
    ref = recorder.study()
    tested = recorder.trial(ref, status=RunStatus.COMPLETED)
    failed = {"seed_kind": "test", "status": RunStatus.LOST}
    recorder.again(tested, 9.0, 1.0, seed=1, **failed)
    recorder.again(tested, 9.0, 1.0, seed=2, seed_kind="test")
    recorder.again(tested, 9.0, 1.0, seed=3, budget=BudgetSpec(seconds=1.0), **failed)
    with reading(recorder.url) as engine:
        attempts = launches.last_attempts(engine, ref.study_id)
        trials = queries.trials(engine, ref.study_id)
    assert [a.seed for a in failures(attempts, trials, None)] == [1]
    assert [a.seed for a in failures(attempts, trials, BudgetSpec(seconds=1.0))] == [3]
