"""`sweeper speedup`: a trial against a baseline that had a budget of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.conftest import Cli
from web.conftest import Recorder

from sweeper.core.clock import BudgetSpec
from sweeper.store.store import Store


@pytest.fixture
def recorder(folder: Path) -> Iterator[Recorder]:
    url = f"sqlite:///{folder / 'sweeper.db'}"
    with Store.open(url) as store:
        yield Recorder(url, store)


@pytest.fixture
def quick(recorder: Recorder) -> int:
    """Number of the trial that learns in a tenth of the baseline's time."""
    ref = recorder.study()
    steps = BudgetSpec(env_steps=1_000_000)
    recorder.trial(ref, 300.0, 9_000.0, origin="baseline", budget=steps, learning_seconds=10.0)
    recorder.trial(ref, 100.0, 24_000.0, learning_seconds=1.0)
    return recorder.trial(ref, 350.0, 18_000.0, learning_seconds=1.0)


def test_the_quickest_is_shown_with_what_it_took(cli: Cli, quick: int) -> None:
    answer = cli("speedup")
    assert answer.code == 0
    assert f"trial {quick} against the baseline (1 and 1 runs, tuning seeds)" in answer.out
    (speed,) = [line for line in answer.out.splitlines() if line.startswith("training speed")]
    assert speed.split()[-3:] == ["9,000", "18,000", "2"]
    assert "the budgets differ: 1000000 env steps for the baseline, 10 s for the trial" in (
        answer.out
    )


def test_the_front_names_it_too(cli: Cli, quick: int) -> None:
    answer = cli("pareto")
    assert f"trial {quick} is as good as the baseline in 1/" in answer.out
    assert "`sweeper speedup cartpole` says more" in answer.out


def test_its_json_has_the_same_lines(cli: Cli, quick: int) -> None:
    record = cli("speedup", "cartpole", "--json").json
    assert (record["trial"], record["baseline"], record["seed_kind"]) == (quick, 1, "tuning")
    time, final, speed, cpu = record["quantities"]
    assert time["factor"] == pytest.approx(time["before"] / time["after"])
    assert time["factor"] > 3
    assert (final["before"], final["after"]) == (300.0, 350.0)
    assert (speed["factor"], cpu["factor"]) == (2.0, 1.0)


def test_a_trial_that_never_gets_there_is_shown_without_a_time(cli: Cli, quick: int) -> None:
    answer = cli("speedup", "--trial", "2")
    assert answer.code == 0
    assert "trial 2 has not become as good as the baseline on every seed" in answer.out


def test_runs_of_a_shorter_confirmation_are_left_out(
    cli: Cli, quick: int, recorder: Recorder
) -> None:
    before = cli("speedup", "--json").json
    recorder.again(quick, 9.0, 1.0, seed=1, seed_kind="test", budget=BudgetSpec(seconds=1.0))
    assert cli("speedup", "--json").json == before


def test_a_study_without_a_baseline_has_nothing_to_compare_with(
    cli: Cli, recorder: Recorder
) -> None:
    recorder.trial(recorder.study())
    answer = cli("speedup")
    assert answer.code == 2
    assert answer.err.startswith("sweeper: study 'cartpole' has no completed baseline to compare")
