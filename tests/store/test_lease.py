"""At most one launcher on a study."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from sqlalchemy import update

from sweeper.core.errors import InputError
from sweeper.store import launches, queries, schema
from sweeper.store.lease import LauncherBusyError, LeaseLostError
from sweeper.store.store import Store


@pytest.fixture
def study_id(store, example):
    return example.study(store).study_id


@pytest.fixture
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_second_launcher_is_refused_and_told_who_holds_it_and_since_when(
    store, study_id, calendar
):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    calendar.advance(29)
    with pytest.raises(LauncherBusyError) as caught:
        store.acquire_lease(study_id, launcher_id="b", host="node-2", pid=1)
    for told in ("'a study'", str(os.getpid()), "node-1", "2030-01-02 03:04:05 UTC"):
        assert told in str(caught.value)


def test_a_live_process_on_this_host_keeps_its_lease(store, study_id):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    with pytest.raises(LauncherBusyError):
        store.acquire_lease(study_id, launcher_id="b", host="node-1", pid=os.getpid())


def test_other_studies_are_free(store, study_id, example):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    another = example.study(store, "another").study_id
    store.acquire_lease(another, launcher_id="b", host="node-1", pid=os.getpid())


def test_a_lease_runs_out_unless_it_is_renewed(store, study_id, calendar):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    calendar.advance(20)
    store.renew_lease(study_id, launcher_id="a")
    calendar.advance(20)
    with pytest.raises(LauncherBusyError):
        store.acquire_lease(study_id, launcher_id="b", host="node-2", pid=1)
    calendar.advance(20)
    store.acquire_lease(study_id, launcher_id="b", host="node-2", pid=1)
    with pytest.raises(LeaseLostError, match="node-2"):
        store.renew_lease(study_id, launcher_id="a")


def test_a_launcher_that_was_taken_for_dead_writes_nothing_more(
    store, reader, study_id, calendar, url
):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    store.add_event("asked", study_id=study_id)
    calendar.advance(31)
    store.add_event("asked", study_id=study_id)  # late, but nobody has missed it
    with Store.open(url, now=calendar) as other:
        other.acquire_lease(study_id, launcher_id="b", host="node-2", pid=1)
        before = queries.change_token(reader, study_id)
        with pytest.raises(LeaseLostError, match="taken over by process 1 on node-2"):
            store.add_event("lost", study_id=study_id)
        with pytest.raises(LeaseLostError):
            store.mark_lost(study_id, "its launcher died")
        store.release_lease(study_id, launcher_id="a")
        assert queries.change_token(reader, study_id) == before
        other.renew_lease(study_id, launcher_id="b")


@pytest.mark.parametrize("how", ["stop", "stop_now"])
def test_a_launcher_is_asked_to_stop_and_the_next_one_is_not(
    store, reader, study_id, calendar, how
):
    with pytest.raises(InputError, match="study 'a study' is not being launched by anyone"):
        store.ask_to_stop(study_id, how)
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=7)
    assert launches.stop_asked(reader, study_id, "a") is None
    assert store.ask_to_stop(study_id, how).pid == 7
    assert launches.stop_asked(reader, study_id, "a") == how
    calendar.advance(31)
    with pytest.raises(InputError):
        store.ask_to_stop(study_id, how)
    store.acquire_lease(study_id, launcher_id="b", host="node-2", pid=8)
    assert launches.stop_asked(reader, study_id, "b") is None


def test_who_is_asked_twice_is_asked_to_stop_at_once(store, reader, study_id):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=7)
    for how in ("stop", "stop_now", "stop"):
        store.ask_to_stop(study_id, how)
    assert launches.stop_asked(reader, study_id, "a") == "stop_now"


def test_a_dead_process_of_this_host_holds_nothing(store, study_id, dead_pid):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=dead_pid)
    store.acquire_lease(study_id, launcher_id="b", host="node-1", pid=os.getpid())


def test_a_zombie_of_this_host_holds_nothing(store, study_id):
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
        store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=process.pid)
        store.acquire_lease(study_id, launcher_id="b", host="node-1", pid=os.getpid())
    finally:
        process.wait()


def test_what_is_dead_here_may_live_on_another_host(store, study_id, dead_pid):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=dead_pid)
    with pytest.raises(LauncherBusyError):
        store.acquire_lease(study_id, launcher_id="b", host="node-2", pid=os.getpid())


def test_a_reused_pid_holds_nothing(store, study_id, calendar):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    with store._engine.begin() as connection:
        connection.execute(update(schema.launchers).values(pid_started_at=calendar()))
    store.acquire_lease(study_id, launcher_id="b", host="node-1", pid=os.getpid())


def test_a_released_lease_is_free_and_cannot_be_renewed(store, study_id):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    store.release_lease(study_id, launcher_id="b")
    with pytest.raises(LauncherBusyError):
        store.acquire_lease(study_id, launcher_id="b", host="node-2", pid=1)
    store.release_lease(study_id, launcher_id="a")
    with pytest.raises(LeaseLostError, match="taken over"):
        store.renew_lease(study_id, launcher_id="a")
    store.acquire_lease(study_id, launcher_id="b", host="node-2", pid=1)


def test_a_launcher_may_take_its_own_lease_again(store, study_id):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())


def test_a_study_that_is_held_is_not_changed_by_a_second_launch(store, reader, study_id, example):
    store.acquire_lease(study_id, launcher_id="a", host="node-1", pid=os.getpid())
    before = queries.study(reader, "a study")
    with pytest.raises(LauncherBusyError):
        example.study(store, target_trials=5, spec_sha256="2" * 64, new_version=True)
    assert queries.study(reader, "a study") == before
    store.release_lease(study_id, launcher_id="a")
    example.study(store, target_trials=5)
    assert queries.study(reader, "a study").target_trials == 5


def test_a_study_is_continued_after_its_launcher_died_here(store, study_id, example, dead_pid):
    here = socket.gethostname()
    store.acquire_lease(study_id, launcher_id="a", host=here, pid=dead_pid)
    example.study(store)
