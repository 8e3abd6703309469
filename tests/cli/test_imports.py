"""What a command imports is what it takes to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "ray", "optuna", "gymnasium", "plotly", "kaleido", "fastapi", "scipy")

PROGRAM = """
import sys
from sweeper.cli import run
code = run(sys.argv[2:])
heavy = [name for name in sys.argv[1].split(",") if name in sys.modules]
print(code, "imported:", *heavy, file=sys.stderr)
"""


def imported(folder: Path, heavy: tuple[str, ...], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(heavy), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "command",
    [
        "--version",
        "--help",
        "status",
        "query;SELECT 1",
        "export;matching;--trial;1",
        "db;current",
        "db;check",
    ],
)
def test_results_are_read_without_what_trains_or_draws(results: Path, command: str) -> None:
    assert imported(results.parent, HEAVY, *command.split(";")) == "0 imported:"


def test_the_front_is_printed_without_what_trains(results: Path) -> None:
    heavy = ("torch", "ray", "optuna", "gymnasium", "kaleido")
    assert imported(results.parent, heavy, "pareto") == "0 imported:"


def test_a_study_is_checked_without_torch_ray_and_optuna(folder: Path) -> None:
    assert imported(folder, ("torch", "ray", "optuna"), "check", "study.yaml") == "0 imported:"


def test_a_misspelt_study_is_refused_without_torch_and_ray(folder: Path) -> None:
    arguments = ("launch", "study.yaml", "--set", "stopp=1")
    assert imported(folder, ("torch", "ray", "optuna"), *arguments) == "2 imported:"
