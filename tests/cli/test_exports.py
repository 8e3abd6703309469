"""`sweeper export` in every format, and named queries."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from cli.conftest import Cli


def test_a_study_as_json_and_csv_holds_every_trial(cli: Cli, results: Path) -> None:
    document = cli("export", "matching").json
    assert [trial["number"] for trial in document["trials"]] == [1, 2, 3, 4]
    assert len(document["runs"]) >= 4
    rows = list(csv.DictReader(io.StringIO(cli("export", "matching", "--as", "csv").out)))
    assert [row["number"] for row in rows] == ["1", "2", "3", "4"]
    for row, trial in zip(rows, document["trials"], strict=True):
        assert float(row["final_return"]) == trial["final_return"]
        assert row["algorithm.optimizer.kind"] == trial["params"]["algorithm.optimizer.kind"]
    cli("export", "matching", "--out", "study.json")
    assert json.loads(Path("study.json").read_text()) == document


def test_a_study_as_parquet_has_typed_columns(cli: Cli, results: Path) -> None:
    import pyarrow.parquet

    assert cli("export", "matching", "--as", "parquet", "--out", "s.parquet").code == 0
    table = pyarrow.parquet.read_table("s.parquet")
    assert table.num_rows == 4
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert kinds["final_return"] == "double"
    assert kinds["parallelism.n_envs"] == "int64"
    assert kinds["asked_at"].startswith("timestamp")


def test_a_study_for_optuna(cli: Cli, results: Path) -> None:
    import optuna

    answer = cli("export", "matching", "--as", "optuna", "--out", "sqlite:///optuna.db")
    assert answer.out == "wrote 4 trials to sqlite:///optuna.db\n"
    assert len(optuna.load_study(study_name="matching", storage="sqlite:///optuna.db").trials) == 4


@pytest.mark.parametrize(
    ("form", "words"), [("sb3", "model.learn"), ("zoo", "n_timesteps"), ("yaml", "trial:")]
)
def test_a_trial_for_a_peer(cli: Cli, results: Path, form: str, words: str) -> None:
    answer = cli("export", "matching", "--trial", "1", "--as", form)
    # The environment of this study has no registered id, by which the zoo would name it.
    assert words in answer.out or (form == "zoo" and "registered id" in answer.err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--as", "excel"), "one of json, csv, parquet, optuna, got 'excel'"),
        (("--as", "parquet"), "needs --out FILE"),
        (("--as", "optuna"), "needs --out sqlite:///FILE"),
        (("--trial", "1", "--as", "csv"), "one of yaml, sb3, zoo, cleanrl, got 'csv'"),
        (("--out", "nowhere/x.json"), "nowhere/x.json cannot be written"),
    ],
)
def test_an_export_that_cannot_be_made_is_bad_input(
    cli: Cli, results: Path, arguments: tuple[str, ...], words: str
) -> None:
    answer = cli("export", "matching", *arguments)
    assert answer.code == 2
    assert words in answer.err


def test_named_queries_are_listed_and_answered(cli: Cli, results: Path) -> None:
    names = [each["name"] for each in cli("query", "--list", "--json").json]
    assert len(names) >= 20
    assert all(name in cli("query", "--list").out for name in names)
    best = cli("query", "best", "--json").json
    assert {row["number"] for row in best} <= {1, 2, 3, 4}
    wrong = cli("query", "bst")
    assert wrong.code == 2
    assert "did you mean 'best'" in wrong.err


def test_a_query_as_parquet(cli: Cli, results: Path) -> None:
    import pyarrow.parquet

    sql = "SELECT number, status FROM trials ORDER BY number"
    assert cli("query", sql, "--parquet", "q.parquet").code == 0
    assert pyarrow.parquet.read_table("q.parquet").to_pylist()[0] == {
        "number": 1,
        "status": "COMPLETED",
    }
    assert cli("query", "SELECT 1 AS x WHERE 1 = 0", "--parquet", "none.parquet").code == 0
    assert pyarrow.parquet.read_table("none.parquet").column_names == ["x"]


def test_sqlite_grants_nothing(cli: Cli, results: Path) -> None:
    answer = cli("db", "grant-reader", "analyst")
    assert answer.code == 2
    assert "chmod" in answer.err
