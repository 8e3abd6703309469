"""What the doctor says of this machine, and of machines that have something wrong."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest

from sweeper.cli import run
from sweeper.cli.interference import Interference
from sweeper.cli.machine import look_around
from sweeper.core.errors import SweeperError
from sweeper.core.records import RunStatus
from sweeper.store.store import Store
from sweeper.study.executor import InlineExecutor, RunEvent, lost_result
from sweeper.study.interference import Crowd, crowd_sizes, measure_crowds
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


def crowd(*speeds: float, foreign: float | None = None) -> Crowd:
    return Crowd(speeds, foreign)


def test_each_number_of_slots_has_its_ratio_and_a_verdict() -> None:
    measured = Interference((crowd(1000.0), crowd(980.0, 960.0), crowd(700.0, 500.0, 500.0, 700.0)))
    fair, fought = measured.findings()
    assert fair.verdict == "ok"
    assert fair.finding == "2 at once: each 97% of the 1,000 env steps/s of one alone"
    assert fought.verdict == "note"
    assert fought.finding.startswith("4 at once: each 60% of")
    assert str(fought.remedy).startswith("`concurrency: 2` ")
    record = measured.record()
    assert record["most_fair_slots"] == 2
    assert [each["ratio"] for each in record["slots"]] == pytest.approx([0.97, 0.6])


def test_a_machine_that_others_used_meanwhile_is_to_be_measured_again() -> None:
    first, *_ = Interference((crowd(1000.0), crowd(500.0, 500.0, foreign=0.4))).findings()
    assert first.verdict == "note"
    assert "others took up to 40%" in first.finding


def test_one_slot_leaves_nothing_to_compare() -> None:
    (only,) = Interference((crowd(1000.0),)).findings()
    assert only.verdict == "ok"
    assert "one slot" in only.finding


def test_crowds_double_until_all_slots_are_full() -> None:
    assert [crowd_sizes(slots) for slots in (1, 2, 3, 4, 6)] == [
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 2, 4],
        [1, 2, 4, 6],
    ]


@pytest.mark.system
def test_interference_is_measured_by_real_trials(
    db: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--db", db, "--interference", "--seconds", "1", "--json"]) == 0
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    measured = document["interference"]
    assert measured["alone_steps_per_second"] > 0
    sizes = crowd_sizes(len(usable_cores()))
    assert [each["slots"] for each in measured["slots"]] == sizes[1:]
    assert [len(each["steps_per_second"]) for each in measured["slots"]] == sizes[1:]
    assert f"{len(sizes)} settings of 1 s: about " in printed.err
    assert "a trial alone, 1 s" in printed.err
    assert any(f["subject"] == "interference" for f in document["findings"])


def test_a_trial_that_fails_is_what_is_said() -> None:
    class Failing(InlineExecutor):
        def events(self, timeout_seconds: float) -> list[RunEvent]:
            return [RunEvent(0, lost_result(RunStatus.LOST, "the worker was lost"))]

    with pytest.raises(SweeperError, match="LOST: the worker was lost"):
        list(measure_crowds(Failing(), [1], seconds=1.0, tell=print))
