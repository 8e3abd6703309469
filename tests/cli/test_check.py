from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import Cli, write_study

from sweeper.cli.check import describe_parameter
from sweeper.study.parameters import FloatParameter, IntParameter, Pow2Parameter

STUDIES = Path(__file__).parents[2] / "studies"
QUICKSTART = str(STUDIES / "quickstart.yaml")


def test_a_study_in_words(cli: Cli) -> None:
    write_study(Path("study.yaml"), trial={"budget": {"seconds": 60}})
    out = cli("check", "study.yaml", "--set", "concurrency=1").out
    assert out.startswith("study.yaml: study 'matching' on worlds:Matching is valid\n")
    assert "1 to 4, powers of 2" in out
    assert "6 of 6 discrete combinations can run" in out
    assert "4 trials x 60 s, 1 at once: about 4 min of training" in out


def test_the_quickstart_is_valid(cli: Cli) -> None:
    assert cli("check", QUICKSTART).out.startswith(f"{QUICKSTART}: study 'quickstart' on CartPole")


def test_the_study_of_pong_is_valid(cli: Cli) -> None:
    path = str(STUDIES / "pong.yaml")
    assert cli("check", path).out.startswith(f"{path}: study 'pong' on ale_py:ALE/Pong-v5 is valid")


def test_the_space_as_json(cli: Cli) -> None:
    record = cli("check", "study.yaml", "--json", "--set", "concurrency=1").json
    assert record["study"] == "matching"
    assert record["valid_combinations"] == record["discrete_combinations"] == 6
    assert record["continuous"] == ["algorithm.optimizer.learning_rate"]
    assert (record["trials"], record["concurrency"], record["expected_seconds"]) == (4, 1, None)


def test_what_is_left_out_is_said(cli: Cli) -> None:
    search = {"algorithm.n_minibatches": {"kind": "choice", "choices": [1, 2, 3]}}
    write_study(Path("study.yaml"), search=search)
    out = cli("check", "study.yaml").out
    assert "left out of algorithm.n_minibatches: 3 (" in out


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        (FloatParameter(kind="float", low=1e-4, high=0.5, log=True), "0.0001 to 0.5, log scale"),
        (IntParameter(kind="int", low=1, high=9, step=2), "1 to 9, step 2"),
        (Pow2Parameter(kind="pow2", low=2, high=8), "2 to 8, powers of 2"),
    ],
)
def test_a_parameter_in_words(parameter: FloatParameter, words: str) -> None:
    assert describe_parameter(parameter) == words
