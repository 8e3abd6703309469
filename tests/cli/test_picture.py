"""A launch as its user sees it: the picture of a terminal and the lines of a pipe."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.cli.display import LineDisplay
from sweeper.cli.picture import picture
from sweeper.cli.progress import best_trials, ended_trials, outcome, share_done, time_left
from sweeper.core.records import Measurement
from sweeper.store import queries
from sweeper.store.rows import TrialRow
from sweeper.study.progress import LaunchState
from sweeper.study.recorder import LiveRun
from sweeper.study.spec import StudySpec, load_study
from sweeper.trial.spec import TrialSpec


@pytest.fixture(scope="module")
def spec(finished_study: Path) -> StudySpec:
    return load_study(finished_study.with_name("study.yaml")).spec


@pytest.fixture(scope="module")
def trials(finished_study: Path) -> list[TrialRow]:
    reader = queries.open_reader(f"sqlite:///{finished_study}")
    rows = queries.trials(reader, queries.study(reader, None).study_id)
    reader.dispose()
    speeds_and_returns = [(100.0, 5.0), (200.0, 4.0), (50.0, 3.0), (10.0, 10.0)]
    return [
        replace(row, steps_per_second=speed, final_return=value)
        for row, (speed, value) in zip(rows, speeds_and_returns, strict=True)
    ]


def state_of(
    trials: list[TrialRow], running: list[LiveRun] | None = None, **changes: object
) -> LaunchState:
    state = LaunchState(
        name="matching",
        trials=tuple(trials),
        running=tuple(running or ()),
        waiting=frozenset(),
        target_trials=8,
        seconds_left=90.0,
        elapsed_seconds=1.0,
        stopping=False,
    )
    return replace(state, **changes)


def running(trial: TrialRow, progress: float | None = None, **changes: object) -> LiveRun:
    spec = TrialSpec.model_validate_json(trial.config_json)
    run = LiveRun(1, trial.trial_id, trial.number, spec, "first", 1, "tuning")
    if progress is not None:
        run.curve.append(
            Measurement(
                elapsed_seconds=1.0,
                progress=progress,
                env_steps=64,
                updates=2,
                episodes=6,
                training_return=7.5,
                episode_length=10.0,
                steps_per_second=12_345.0,
                learning_rate=1e-3,
            )
        )
    return replace(run, **changes)


def text(state: LaunchState, spec: StudySpec, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain for line in picture(state, spec, width=width, height=height)]


def test_counts_progress_and_time_left(spec: StudySpec, trials: list[TrialRow]) -> None:
    going = replace(trials[3], status="RUNNING")
    lines = text(state_of([*trials[:3], going], [running(going, 0.5)]), spec)
    assert lines[0] == "matching: trials of 640 env steps on worlds:Matching"
    assert lines[1].endswith("  done 3/8, running 1, about 90 s left")
    assert lines[1].count("━") == int(30 * 3.5 / 8)
    row = next(line for line in lines if line.startswith("    4 "))
    assert row.split()[:4] == ["4", "50%", "7.5", "12,300"]


def test_the_best_so_far_is_the_front(spec: StudySpec, trials: list[TrialRow]) -> None:
    state = state_of(trials)
    assert [trial.number for trial in best_trials(state, spec)] == [4, 1, 2]
    lines = text(state, spec)
    assert [line.split()[0] for line in lines[-3:]] == ["4", "1", "2"]


def test_a_trial_of_another_budget_is_not_among_the_best(
    spec: StudySpec, trials: list[TrialRow]
) -> None:
    longer = replace(trials[3], budget_env_steps=6400)
    assert [t.number for t in best_trials(state_of([*trials[:3], longer]), spec)] == [1, 2]


def test_what_will_be_tried_again_is_not_done(spec: StudySpec, trials: list[TrialRow]) -> None:
    lost, failed = replace(trials[0], status="LOST"), replace(trials[1], status="ERROR")
    state = state_of([lost, failed, *trials[2:]], waiting=frozenset({1}))
    assert [trial.number for trial in ended_trials(state)] == [2, 3, 4]
    assert "done 3/8, running 0, failed 1" in text(state, spec)[1]


def test_another_seed_of_a_finished_trial_leaves_it_done(
    spec: StudySpec, trials: list[TrialRow]
) -> None:
    state = state_of(trials, [running(trials[0], 0.5, kind="replicate")])
    assert len(ended_trials(state)) == 4
    assert share_done(state) == 0.5
    assert any("replicate: " in line for line in text(state, spec))


def test_a_run_says_what_it_does(spec: StudySpec, trials: list[TrialRow]) -> None:
    state = state_of(
        trials,
        [
            running(trials[0]),
            running(trials[1], 1.0),
            running(trials[2], waiting_for="cores held by 7"),
        ],
    )
    seen = "\n".join(text(state, spec))
    for words in (" 1 +starting ", " 2 +evaluating ", " 3 +waiting .* cores held by 7"):
        assert re.search(words, seen)


@pytest.mark.parametrize("n_running", [1, 40])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 50), (40, 12), (20, 5)])
def test_it_fits_any_window(
    spec: StudySpec, trials: list[TrialRow], n_running: int, width: int, height: int
) -> None:
    runs = [running(trials[0], 0.25) for _ in range(n_running)]
    lines = text(state_of(trials, runs, stopping=True), spec, width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    if height == 24 and n_running == 40:
        assert any(line.startswith("and ") and line.endswith(" more") for line in lines)


def test_without_a_number_of_trials_there_is_no_share(
    spec: StudySpec, trials: list[TrialRow]
) -> None:
    state = state_of(trials, target_trials=None, seconds_left=None)
    assert share_done(state) is None
    assert text(state, spec)[1] == "done 4, running 0"


def test_no_time_is_left_when_nothing_runs(trials: list[TrialRow]) -> None:
    assert time_left(state_of(trials)) == ""
    assert time_left(state_of(trials, [running(trials[0])], seconds_left=0.0)) == ""


def test_an_interrupted_launch_says_how_to_end_it_at_once(
    spec: StudySpec, trials: list[TrialRow]
) -> None:
    state = state_of(trials, [running(trials[0])], stopping=True)
    assert text(state, spec)[1].endswith("  done 4/8, stopping 1 (Ctrl-C again: at once)")


def test_a_failed_trial_has_its_reason(spec: StudySpec, trials: list[TrialRow]) -> None:
    failed = replace(trials[0], status="ERROR", reason="it exploded")
    assert outcome(failed, spec) == "ERROR it exploded"
    assert outcome(trials[0], spec) == "final return 5, training speed 100 env steps/s"
    assert outcome(replace(trials[0], feasible=False), spec).endswith(", infeasible")


def test_a_pipe_gets_one_line_a_trial(
    spec: StudySpec, trials: list[TrialRow], capsys: pytest.CaptureFixture[str]
) -> None:
    with LineDisplay(spec) as display:
        for n in (1, 1, 3, 4):  # the first was there before
            display.show(state_of(trials[:n], [running(trials[3])]))
    assert capsys.readouterr().out.splitlines() == [
        "matching: trials of 640 env steps on worlds:Matching",
        "continues: 1 trials are there already",
        *(
            f"[{done}/8] trial {done}: {outcome(trials[done - 1], spec)}  (about 90 s left)"
            for done in (2, 3, 4)
        ),
    ]
