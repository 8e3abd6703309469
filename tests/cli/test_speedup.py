"""`sweeper speedup`: a trial against a baseline that had a budget of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cli.conftest import Cli
from web.conftest import HOST, Recorder

from sweeper.core.clock import BudgetSpec
from sweeper.store.store import Store

OTHER = replace(HOST, hardware_class="Xeon x 2")


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


def test_what_ran_on_other_hardware_than_the_baseline_is_left_out_and_counted(
    cli: Cli, recorder: Recorder, quick: int
) -> None:
    alike = cli("speedup", "--json").json
    assert alike["left_out"] == []
    assert alike["baseline_hardware"] == alike["trial_hardware"] == [HOST.hardware_class]
    ref = recorder.study()
    quicker = recorder.trial(ref, 400.0, 50_000.0, host=OTHER, learning_seconds=0.1)
    assert cli("speedup", "--json").json == {**alike, "left_out": [quicker]}
    answer = cli("speedup")
    assert f"trial {quick} against the baseline" in answer.out
    assert f"all measured on {HOST.hardware_class}\n" in answer.out
    assert "1 trial was not compared with the baseline" in answer.out
    assert f"trial {quick} is as good as the baseline in 1/" in cli("pareto").out


def test_a_trial_of_other_hardware_is_shown_without_factors_and_with_both_names(
    cli: Cli, recorder: Recorder, quick: int
) -> None:
    other = str(recorder.trial(recorder.study(), 350.0, 18_000.0, host=OTHER, learning_seconds=1.0))
    answer = cli("speedup", "--trial", other)
    (speed,) = [line for line in answer.out.splitlines() if line.startswith("training speed")]
    assert speed.split()[-3:] == ["9,000", "18,000", "–"]
    assert "the baseline ran on EPYC x 2, the trial on Xeon x 2: there are no factors" in answer.out
    assert "has not become as good" not in answer.out
    record = cli("speedup", "--trial", other, "--json").json
    assert (record["baseline_hardware"], record["trial_hardware"]) == (["EPYC x 2"], ["Xeon x 2"])
    assert [quantity["factor"] for quantity in record["quantities"]] == [None] * 4


def test_of_a_trial_that_ran_on_both_only_the_runs_on_the_baselines_hardware_count(
    cli: Cli, recorder: Recorder, quick: int
) -> None:
    before = cli("speedup", "--trial", f"{quick}", "--json").json
    for seed in (1, 2):
        recorder.again(quick, 990.0, 99_000.0, seed=seed, host=OTHER, learning_seconds=0.1)
    assert cli("speedup", "--trial", f"{quick}", "--json").json == before
    assert "2 further runs, on other hardware, are left out" in (
        cli("speedup", "--trial", f"{quick}").out
    )


def test_nothing_is_claimed_where_all_ran_on_other_hardware(cli: Cli, recorder: Recorder) -> None:
    ref = recorder.study()
    recorder.trial(ref, 300.0, 9_000.0, origin="baseline", learning_seconds=10.0)
    recorder.trial(ref, 350.0, 18_000.0, host=OTHER, learning_seconds=1.0)
    recorder.trial(ref, 340.0, 19_000.0, host=OTHER, learning_seconds=1.0)
    answer = cli("speedup")
    assert answer.code == 0
    assert "no trial has become as good as the baseline yet" in answer.out
    assert "2 trials were not compared with the baseline" in answer.out
    record = cli("speedup", "--json").json
    assert (record["trial"], record["left_out"]) == (None, [2, 3])
    assert "as good as" not in cli("pareto").out


def test_a_study_without_a_baseline_has_nothing_to_compare_with(
    cli: Cli, recorder: Recorder
) -> None:
    recorder.trial(recorder.study())
    answer = cli("speedup")
    assert answer.code == 2
    assert answer.err.startswith("sweeper: study 'cartpole' has no completed baseline to compare")
