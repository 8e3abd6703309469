"""The commands that read results: status, pareto, query, db."""

from __future__ import annotations

import csv
import io
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from cli.conftest import Cli


def test_status_counts_the_trials(cli: Cli, results: Path) -> None:
    (status,) = cli("status", "--json").json
    assert status["study"] == "matching"
    assert status["environment"] == "worlds:Matching"
    counts = ("trials", "target_trials", "completed", "running", "failed")
    assert [status[key] for key in counts] == [4, 4, 4, 0, 0]
    assert status["statuses"] == {"COMPLETED": 4}
    row = cli("status", "matching").out.splitlines()[-1].split()
    assert row[:6] == ["matching", "worlds:Matching", "4", "4", "0", "0"]


def test_the_front_as_table_json_and_plot(cli: Cli, results: Path) -> None:
    front = cli("pareto", "matching", "--json").json
    assert front
    assert front[0].keys() >= {"trial", "final_return", "steps_per_second", "params", "n_runs"}
    assert set(front[0]["params"]) == {
        "parallelism.n_envs",
        "algorithm.optimizer.kind",
        "algorithm.optimizer.learning_rate",
    }
    answer = cli("pareto", "--html", "plot.html")
    assert f"matching: the front, {len(front)} of 4 trials" in answer.out
    assert "wrote plot.html" in answer.out
    assert "Plotly.newPlot" in Path("plot.html").read_text()
    best = [trial for trial in front if trial["trial"] == front[0]["trial"]]
    assert re.search(rf"^ *{best[0]['trial']} ", answer.out, re.MULTILINE)


def test_a_front_of_different_hardware_is_marked_and_can_be_of_one_kind(
    cli: Cli, results: Path
) -> None:
    assert "hardware" not in cli("pareto").out
    with closing(sqlite3.connect(results)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(hosts)")][1:]
        others = ", ".join("'Other x 1'" if c == "hardware_class" else c for c in columns)
        connection.execute(f"INSERT INTO hosts ({', '.join(columns)}) SELECT {others} FROM hosts")
        connection.execute("UPDATE runs SET host_id = 2 WHERE trial_id = 1")
    answer = cli("pareto", "--html", "plot.html")
    assert "trials of different hardware are compared" in answer.out
    assert "1 on Other x 1" in answer.out
    assert "1 on Other x 1" in Path("plot.html").read_text()
    (trial,) = cli("pareto", "--hardware", "other", "--json").json
    assert (trial["trial"], trial["hardware"]) == (1, ["Other x 1"])
    assert "hardware" not in cli("pareto", "--hardware", "other").out
    refused = cli("pareto", "--hardware", "ARM")
    assert refused.code == 2
    assert "'Other x 1'" in refused.err


def test_the_front_of_a_study_whose_file_is_no_longer_valid_is_still_shown(
    cli: Cli, results: Path
) -> None:
    with closing(sqlite3.connect(results)) as connection, connection:
        connection.execute("UPDATE study_versions SET spec_yaml = 'from: another release'")
    answer = cli("pareto", "matching")
    assert answer.code == 0
    assert "matching: the front" in answer.out


def test_a_reader_that_has_seen_enough_is_no_failure(results: Path) -> None:
    many = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
        "SELECT i FROM n"
    )
    program = "from sweeper.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "query", many, "--csv"],
        cwd=results.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "i\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_the_database_is_named_by_option_or_environment(
    cli: Cli, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = results.rename(results.with_name("other.db"))
    by_option = cli("status", "--db", f"sqlite:///{elsewhere}", "--json")
    monkeypatch.setenv("SWEEPER_DB", "sqlite:///other.db")
    assert cli("status", "--json").json == by_option.json
    assert cli("query", "SELECT count(*) FROM trials").out.split()[-1] == "4"


QUERY = "SELECT number, status, 9e999 AS too_large, NULL AS absent FROM trials ORDER BY number"


def test_a_query_as_json_has_no_infinity(cli: Cli, results: Path) -> None:
    rows = cli("query", QUERY, "--json").json
    assert rows == [
        {"number": n, "status": "COMPLETED", "too_large": None, "absent": None}
        for n in (1, 2, 3, 4)
    ]


def test_a_query_as_csv_is_read_back(cli: Cli, results: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("query", QUERY, "--csv").out)))
    assert [row["number"] for row in rows] == ["1", "2", "3", "4"]
    assert {row["absent"] for row in rows} == {""}


def test_a_query_as_a_table_is_not_cut(cli: Cli, results: Path) -> None:
    out = cli("query", "SELECT number, config_json FROM trials WHERE number = 1").out
    assert out.rstrip().endswith("}")


def test_a_query_from_a_file(cli: Cli, results: Path) -> None:
    Path("count.sql").write_text("-- how many?\nSELECT count(*) AS n\nFROM trials;\n")
    for option in ("--file", "-f"):
        assert cli("query", option, "count.sql", "--json").json == [{"n": 4}]


def test_a_query_from_standard_input(
    cli: Cli, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 7 AS x"))
    assert cli("query", "-", "--json").json == [{"x": 7}]


def test_a_sound_database(cli: Cli, results: Path) -> None:
    current = cli("db", "current", "--json").json
    assert current["revision"] == current["needed"]
    assert cli("db", "current").out.strip() == current["needed"]
    assert cli("db", "upgrade").out.strip() == f"{current['needed']}, as it was"
    assert (cli("db", "check").code, cli("db", "check").out) == (0, "sound\n")
    assert cli("db", "check", "--json").json == {"faults": []}


def test_an_unsound_database_is_a_failure_with_its_faults(cli: Cli, results: Path) -> None:
    with sqlite3.connect(results) as connection:
        connection.execute("DELETE FROM studies")
        connection.execute("DROP TABLE trial_constraints")
        connection.execute("ALTER TABLE events DROP COLUMN detail")
    connection.close()
    answer = cli("db", "check", "--json")
    assert answer.code == 1
    faults = answer.json["faults"]
    assert "table trial_constraints is missing" in faults
    assert "column events.detail is missing" in faults
    assert any(re.fullmatch(r"row \d+ of trials refers to a missing studies", f) for f in faults)
    assert cli("db", "check").out.splitlines() == faults
