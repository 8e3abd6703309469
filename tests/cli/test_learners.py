"""The documented learner: checked, refused by the line, run as its page says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli.conftest import Cli
from cli.test_imports import imported
from documented import write_example

COMMAND = str(Path(sys.executable).parent / "sweeper")


@pytest.fixture
def example(folder: Path) -> Path:
    """The working directory, with the documented files in it."""
    write_example(folder)
    return folder


def edited(example: Path, before: str, after: str) -> int:
    """Change the study; returns the line of the change."""
    path = example / "study.yaml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    return text[: text.index(before)].count("\n") + 1


@pytest.mark.slow
def test_the_documented_learner_learns_and_its_trial_reproduces(example: Path) -> None:
    arguments = [COMMAND, "run", "study.yaml", "--set", "budget={env_steps: 100000}"]
    results = []
    for _ in range(2):
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    assert results[0]["env_steps"] == 100_000
    assert results[0]["final_return"] > 100
    assert results[0]["final_return"] == results[1]["final_return"]


def test_it_is_checked_without_torch(example: Path) -> None:
    # Its own module imports sweeper.rl.learner, and so torch; another need not.
    (example / "light.py").write_text("class Light:\n    def train(s, d): ...\n    act = train\n")
    edited(example, "cross_entropy:CrossEntropy", "light:Light")
    assert imported(example, ("torch", "ray", "optuna"), "check", "study.yaml") == "0 imported:"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("elite_share: 0.25", "elite_share: 2", "algorithm.elite_share must be at most 1, got 2"),
        (
            "elite_share: 0.25",
            "elite_shar: 0.25",
            "algorithm.elite_shar is not a known key; did you mean `elite_share`?",
        ),
        (
            "high: 0.5",
            "high: 1.5",
            "search.algorithm.elite_share.high must be at most 1, got 1.5",
        ),
        ("cross_entropy:C", "no_such:C", "algorithm.kind: no_such cannot be imported: there is"),
        ("y:CrossEntropy", "y:Other", "algorithm.kind: cross_entropy has no Other"),
        ("y:CrossEntropy", "y:choose", "algorithm.kind: cross_entropy:choose must be a class"),
        (
            "y:CrossEntropy",
            "y:CrossEntropySpec",
            "algorithm.kind: cross_entropy:CrossEntropySpec is no learner: it has no `train` and",
        ),
    ],
)
@pytest.mark.parametrize("command", ["check", "launch"])
def test_what_cannot_be_made_is_refused_at_its_line(
    cli: Cli, example: Path, command: str, before: str, after: str, said: str
) -> None:
    line = edited(example, before, after)
    answer = cli(command, "study.yaml")
    assert answer.code == 2
    assert answer.err.startswith(f"sweeper: study.yaml:{line}: {said}")
    assert answer.err.count("\n") == 1
    assert not Path("sweeper.db").exists()


def test_a_baseline_of_stable_baselines3_that_is_not_installed_names_the_extra(
    cli: Cli, example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    baseline = "baseline:\n  set: {algorithm.kind: sb3}\nsearch:"
    line = edited(example, "search:", baseline)
    answer = cli("check", "study.yaml")
    assert answer.code == 2
    assert answer.err == (
        f"sweeper: study.yaml:{line + 1}: baseline.set.algorithm.kind: sb3 needs "
        "Stable-Baselines3; type `pip install 'sweeper[sb3]'`\n"
    )
