"""What the doctor says of this machine, and of machines that have something wrong."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest

from sweeper.cli import run
from sweeper.cli.doctor import Interference
from sweeper.cli.machine import look_around
from sweeper.store.store import Store
from sweeper.trial.cores import LEASES, lease_cores, usable_cores


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(LEASES, str(tmp_path / "leases"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return f"sqlite:///{tmp_path / 'results.db'}"


def verdicts(db: str) -> dict[str, tuple[str, str]]:
    return {f.subject: (f.verdict, f.finding) for f in look_around(db)}


def test_a_sound_machine_is_said_to_be_so(
    db: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["doctor", "--db", db]) == 0
    out = capsys.readouterr().out
    assert f"{len(usable_cores())} usable" in out
    assert "the first launch makes it" in out
    assert "BROKEN" not in out
    assert not (tmp_path / "results.db").exists()  # looking leaves nothing behind


def test_json_has_the_same_findings(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    Store.open(db).close()
    assert run(["doctor", "--db", db, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["interference"] is None
    found = {finding["subject"]: finding["verdict"] for finding in document["findings"]}
    assert found["database"] == "ok"
    assert found["cores"] == "ok"
    assert set(found.values()) <= {"ok", "note"}


def test_what_is_broken_is_told_with_a_remedy_and_the_exit_code(
    db: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "results.db").write_text("this is no database, whatever its name may say" * 99)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert run(["doctor", "--db", db]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "BROKEN" in line]
    assert [line.split()[1] for line in lines] == ["database:", "ray:"]
    assert "not a database" in lines[0]
    assert "127.0.0.1:1" in lines[1]


def test_too_few_descriptors_are_broken(db: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert verdicts(db)["descriptors"][0] == "broken"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_who_holds_cores_is_named(db: str) -> None:
    lease = lease_cores(1)
    verdict, finding = verdicts(db)["leases"]
    lease.release()
    assert verdict == "note"
    assert f"held by process {os.getpid()}" in finding


def test_interference_is_the_mean_speed_together_over_the_speed_alone() -> None:
    measured = Interference(1000.0, (980.0, 960.0))
    assert measured.ratio == pytest.approx(0.97)
    assert measured.finding().verdict == "ok"
    fought = Interference(1000.0, (600.0, 400.0)).finding()
    assert fought.verdict == "note"
    assert "each of 2 at once 50% of that" in fought.finding
    assert fought.remedy is not None


@pytest.mark.system
def test_interference_is_measured_by_real_trials(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--db", db, "--interference", "--seconds", "1", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)["interference"]
    assert len(measured["together_steps_per_second"]) == len(usable_cores())
    assert measured["alone_steps_per_second"] > 0
