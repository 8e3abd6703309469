"""Whose turn it is to have this machine's cores."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeper.trial.cores import LEASES, usable_cores
from sweeper.trial.queue import SILENT_SECONDS, Place, Ticket, in_the_way, queue

ALL = len(usable_cores())


@pytest.fixture(autouse=True)
def _own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASES, str(tmp_path))


def ticket(study: str, *, cores: int = 0, wanted: int = 0) -> Ticket:
    return Ticket(study, 0, 0, "", 1, cores, wanted, 0)


@pytest.mark.parametrize(
    ("ahead", "cores", "waits_for"),
    [
        ([], 8, None),
        ([ticket("a", wanted=8)], 1, "a"),
        ([ticket("a", wanted=6)], 2, None),
        ([ticket("a", wanted=6)], 3, "a"),
        ([ticket("a", cores=8, wanted=2)], 1, "a"),  # it is about to end what it has no use for
        ([ticket("a", wanted=4), ticket("b", wanted=3)], 1, None),
        ([ticket("a", wanted=4), ticket("b", wanted=3)], 2, "b"),
        ([ticket("a", wanted=8), ticket("b", wanted=8)], 1, "a"),
        ([ticket("a"), ticket("b")], 8, None),  # with nothing more to begin
    ],
)
def test_those_ahead_are_left_what_they_want(
    ahead: list[Ticket], cores: int, waits_for: str | None
) -> None:
    found = in_the_way(ahead, cores=cores, usable=8)
    assert (found and found.study) == waits_for


def test_studies_come_in_the_order_of_their_priority_and_then_of_their_coming() -> None:
    with (
        Place("first", priority=0, most=ALL) as first,
        Place("second", priority=0, most=ALL) as second,
        Place("urgent", priority=1, most=ALL) as urgent,
        Place("idle", priority=-1, most=ALL) as idle,
    ):
        assert [t.study for t in queue()] == ["urgent", "first", "second", "idle"]
        assert urgent.waits_for(ALL) is None
        for place in (first, second, idle):
            assert place.waits_for(1) == urgent.ticket
        urgent.tell(cores=ALL, wanted=ALL)
        assert queue()[0].cores == ALL
        urgent.tell(cores=0, wanted=0)
        assert first.waits_for(ALL) is None
        assert second.waits_for(1) == first.ticket
        first.close()
        first.close()
        assert second.waits_for(ALL) is None
    assert queue() == []


def test_a_launcher_that_is_silent_for_long_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        Place("hangs", priority=0, most=ALL) as hangs,
        Place("mine", priority=0, most=ALL) as mine,
    ):
        assert mine.waits_for(1) == hangs.ticket
        later = time.monotonic_ns() + int(SILENT_SECONDS * 1e9)
        monkeypatch.setattr("time.monotonic_ns", lambda: later)
        assert mine.waits_for(1) is None
        hangs.tell(cores=0, wanted=ALL)
        assert mine.waits_for(1) == hangs.ticket


HOLD = """
from sweeper.trial.queue import Place
place = Place("another", priority=5, most=1)
print(1, flush=True)
input()
"""


@pytest.mark.system
def test_a_place_is_lost_with_the_death_of_its_launcher(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    with Place("mine", priority=0, most=ALL) as mine:
        assert [t.study for t in queue()] == ["another", "mine"]
        waited_for = mine.waits_for(ALL)
        assert waited_for is not None
        assert (waited_for.study, waited_for.pid) == ("another", process.pid)
        process.kill()
        process.communicate()
        assert mine.waits_for(ALL) is None
        assert [path.name for path in tmp_path.glob("study-*")] == [mine._path.name]


def test_a_file_that_is_no_ticket_is_passed_over(tmp_path: Path) -> None:
    with Place("mine", priority=0, most=1):
        (tmp_path / "study-0-0").write_text("what is this?")
        assert [t.study for t in queue()] == ["mine"]
