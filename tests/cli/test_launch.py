"""What `sweeper launch` refuses once it has looked at the database, still before Ray starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import Cli, write_study
from cli.test_bad_input import refused

from sweeper.store.store import Store
from sweeper.study.claim import claim_study
from sweeper.study.spec import load_study


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        pytest.fail("Ray was started")

    monkeypatch.setattr("ray.init", start)


def test_a_changed_file_is_named_with_its_line_and_the_way_on(cli: Cli, results: Path) -> None:
    write_study(Path("study.yaml"), trial={"budget": {"env_steps": 1280}})
    said = refused(cli, "launch", "study.yaml")
    line = 1 + Path("study.yaml").read_text().splitlines().index("  budget: {env_steps: 1280}")
    assert said.startswith(
        f"study.yaml:{line}: budget.env_steps: is 1280, was 640 when study 'matching' was "
        "launched (version 1); "
    )
    assert "--new-version" in said


def test_a_changed_override_is_quoted(cli: Cli, results: Path) -> None:
    said = refused(cli, "launch", "study.yaml", "--set", "trial.seed=7")
    assert said.startswith("--set trial.seed=7: seed: is 7, was not given when")


def test_a_second_launcher_is_told_who_the_first_is(cli: Cli, results: Path) -> None:
    loaded = load_study("study.yaml")
    with (
        Store.open("sqlite:///sweeper.db") as store,
        claim_study(store, loaded, target_trials=4),
    ):
        answer = cli("launch", "study.yaml")
    assert answer.code == 2
    assert answer.err.startswith("sweeper: study 'matching' is being launched by process ")
    assert answer.err.count("\n") == 1
