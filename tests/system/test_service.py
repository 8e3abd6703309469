"""The launcher as a service: asked to stop, asked again, left alone, and cleaned up after."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import termios
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import text
from system.launching import World, eventually

from sweeper.store.connect import open_writer
from sweeper.study import reaper
from sweeper.trial.cores import usable_cores

pytestmark = pytest.mark.system


def test_a_study_is_stopped_gently_from_another_terminal(database: World) -> None:
    world = database
    world.study(stop={"trials": 3}, trial={"budget": {"seconds": 4}})
    launch = world.launch()
    eventually(world.is_amid)
    stop = world.start("stop", "matching", "--json")
    assert stop.wait() == 0, stop.text
    said = json.loads(stop.stdout.read_text())
    assert (said["host"], said["pid"], said["stopped"]) == (
        socket.gethostname(),
        launch.pid,
        True,
    )
    assert said["interrupted"] == world.count("INTERRUPTED") >= 1
    assert launch.wait() == 130
    assert "`sweeper launch study.yaml" in launch.text
    assert launch.stderr.read_text() == ""
    assert world.count("RUNNING") == 0
    world.assert_nothing_left()

    nobody = world.start("stop", "matching")
    assert nobody.wait() == 2
    assert nobody.text == "sweeper: study 'matching' is not being launched by anyone\n"
    assert world.launch().wait() == 0  # the word to stop was for the other
    world.assert_complete(3)


def test_a_study_that_does_not_listen_is_stopped_at_once(world: World) -> None:
    stone = world.waiting_study(stop={"trials": 2})
    launch = world.launch()
    eventually(world.env_workers)
    asked = world.start("stop", "matching", "--no-wait")
    assert asked.wait() == 0
    assert f"asked process {launch.pid}" in asked.text
    assert launch.process.poll() is None
    stop = world.start("stop", "matching", "--now")
    assert stop.wait() == 0, stop.text
    assert "stopped: 0 of 2 trials completed" in stop.text
    assert launch.wait() == 130
    assert "Traceback" not in launch.text
    assert world.count("RUNNING") == 0
    world.assert_nothing_left()
    stone.unlink()
    assert world.launch().wait() == 0
    world.assert_complete(2)


def test_a_launcher_that_was_taken_for_dead_stands_down_without_writing(world: World) -> None:
    world.study(stop={"trials": 2}, trial={"budget": {"seconds": 4}})
    first = world.launch()
    eventually(world.training)
    first.signal(signal.SIGSTOP)
    expire_lease(world)  # as if it had slept for longer
    assert world.launch().wait() == 0
    tables = ("runs", "trials", "events", "measurements", "evaluations", "studies")
    before = {table: world.sql(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}
    first.signal(signal.SIGCONT)
    assert first.wait() == 1
    assert "study 'matching' was taken over" in first.stderr.read_text()
    assert "Traceback" not in first.text
    assert {table: world.sql(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables} == before
    world.assert_complete(2)


def test_runs_that_failed_are_made_again_on_request(world: World) -> None:
    env = {"make": "worlds:Broken", "kwargs": {"how": "raise", "after": 20}}
    world.study(stop={"trials": 2}, trial={"env": env})
    assert world.launch().wait() == 1
    assert world.count("ERROR") == 2
    refused = world.start("retry", "matching", "--status", "DIVERGED")
    assert refused.wait() == 2
    assert "would diverge again" in refused.text
    for _ in range(2):  # asked twice, it is done once
        retry = world.start("retry", "matching", "--status", "ERROR,LOST", "--json")
        assert retry.wait() == 0, retry.text
    said = json.loads(retry.stdout.read_text())
    assert [run["trial"] for run in said["retried"]] == [1, 2]
    assert world.launch().wait() == 1
    rows = world.sql("SELECT trial_id, attempt, kind, status FROM runs ORDER BY trial_id, attempt")
    assert rows == [
        (trial, attempt, kind, "ERROR")
        for trial in (1, 2)
        for attempt, kind in ((1, "first"), (2, "retry"))
    ]
    assert world.sql("SELECT DISTINCT detail FROM events WHERE kind = 'retried'") == [
        ("asked for by `sweeper retry`",)
    ]
    assert world.launch().wait() == 1  # as asked, and no more
    assert world.count("ERROR") == 4


def test_what_launchers_left_that_died_with_their_reapers_is_ended(world: World) -> None:
    # Which of Ray's own processes outlive a dead launcher differs; what environments start may.
    env = {"make": "worlds:Odd", "kwargs": {"how": "starts processes"}}
    world.study(stop={"trials": 2}, trial={"env": env, "budget": {"seconds": 3600}})
    dead = world.launch()
    eventually(lambda: [p for p in world.processes() if _is_named(p, "sleep")])
    # Else Ray's own, and workers whose raylet is gone, would soon end by themselves: all of them,
    # those that were started while the others were being stopped as well.
    while moving := [process for process in world.processes() if not _is_stopped(process)]:
        for process in moving:
            with contextlib.suppress(psutil.NoSuchProcess):
                if "sweeper.study.reaper" in process.cmdline():
                    process.kill()
                else:
                    process.suspend()
    dead.signal(signal.SIGKILL)
    dead.wait()
    world.study("alive.yaml", study="alive", stop={"trials": 100})
    living = world.start("launch", "alive.yaml")
    eventually(lambda: world.status("alive").get("launcher"))
    left = [p for p, mark in reaper.processes() if mark.pid == dead.pid]

    listed = world.start("reap", "--dry-run", "--json")
    assert listed.wait() == 0, listed.text
    found = json.loads(listed.stdout.read_text())
    assert found["ended"] is False
    left_by = [
        (re.split(", | on ", row["launcher"])[0], row["kind"]) for row in found["left_behind"]
    ]
    assert {kind for who, kind in left_by if who == f"process {dead.pid}"} == {
        "process",
        "session",
        "runs",
    }
    assert f"process {living.pid}" not in dict(left_by)
    assert world.count("LOST") == 0
    assert any(p.is_running() for p in left)

    reap = world.start("reap")
    assert reap.wait() == 0, reap.text
    assert "ended:" in reap.text
    assert not [p for p, mark in reaper.processes() if mark.pid == dead.pid]
    assert not [folder for folder, mark in reaper.sessions() if mark.pid == dead.pid]
    assert world.sql("SELECT DISTINCT reason FROM runs WHERE status = 'LOST'") == [
        ("its launcher died",)
    ]
    assert living.process.poll() is None
    assert world.start("stop", "alive").wait() == 0
    assert living.wait() == 130
    world.assert_nothing_left()


def test_a_detached_launcher_outlives_its_terminal_and_is_followed_and_stopped(
    world: World,
) -> None:
    stone = world.waiting_study(stop={"trials": 2})
    terminal, theirs = pty.openpty()
    detach = world.start(
        "launch",
        "study.yaml",
        "--detach",
        stdin=theirs,
        start_new_session=False,
        preexec_fn=lambda: os.setsid() or fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    assert detach.wait() == 0, detach.text
    os.close(terminal)  # SIGHUP to whoever is left in the session
    pid = world.status("matching")["launcher"]["pid"]
    lines = dict(line.split(": ", 1) for line in detach.text.splitlines() if ": " in line)
    assert f"process {pid}" in detach.text
    assert lines["stop"].strip() == "sweeper stop matching"
    log = Path(lines["log"].strip())
    assert log.is_relative_to(world.folder / "state" / "sweeper")
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGHUP)
    follow = world.start("logs", "matching", "-f")
    eventually(lambda: "matching: trials of" in follow.text)
    assert follow.process.poll() is None
    stone.unlink()
    assert follow.wait() == 0
    assert follow.text == log.read_text()
    assert "matching: the front" in follow.text
    last = world.start("logs", "-n", "1")
    assert last.wait() == 0
    assert last.text == log.read_text().splitlines(keepends=True)[-1]
    world.assert_complete(2)


def test_a_launcher_that_fails_as_it_starts_says_so_where_it_was_called(world: World) -> None:
    stone = world.waiting_study(stop={"trials": 1})
    assert world.start("launch", "study.yaml", "--detach").wait() == 0
    second = world.start("launch", "study.yaml", "--detach")
    assert second.wait() == 2
    assert second.stdout.read_text() == ""
    assert "is being launched by process" in second.stderr.read_text()
    assert world.start("logs").wait() == 0
    unknown = world.start("launch", "study.yaml", "--detach", "--set", "stopp=1")
    assert unknown.wait() == 2
    stone.unlink()
    eventually(lambda: world.sql("SELECT count(*) FROM launchers") == [(0,)])
    world.assert_complete(1)


def test_a_log_on_another_host_is_named(world: World) -> None:
    world.study(stop={"trials": 1})
    assert world.launch().wait() == 0
    none = world.start("logs", "matching")
    assert none.wait() == 2
    assert "never launched with --detach" in none.text
    execute(
        world,
        "INSERT INTO events (at, study_id, kind, detail) SELECT at, study_id, 'log', "
        "'elsewhere:/var/a.log' FROM events LIMIT 1",
    )
    elsewhere = world.start("logs", "matching")
    assert elsewhere.wait() == 2
    assert "is on elsewhere: /var/a.log" in elsewhere.text


def test_studies_of_one_machine_have_its_cores_by_priority_and_then_as_they_came(
    world: World,
) -> None:
    more = len(usable_cores()) + 2
    stone = world.waiting_study("first.yaml", study="first", stop={"trials": more})
    world.study("second.yaml", study="second", stop={"trials": 2})
    world.study("urgent.yaml", study="urgent", stop={"trials": more}, priority=1)
    first = world.start("launch", "first.yaml")
    eventually(world.env_workers)
    urgent = world.start("launch", "urgent.yaml")
    eventually(lambda: (queued(world, "urgent") or {}).get("cores"))
    second = world.start("launch", "second.yaml")
    eventually(lambda: "waiting: behind study 'urgent'" in second.text)
    queue = {name: queued(world, name) for name in ("urgent", "first", "second")}
    assert [place["place"] for place in queue.values()] == [1, 2, 3]
    assert queue["second"]["behind"] == "urgent"
    assert queue["first"]["cores"] >= 1
    assert queue["second"]["cores"] == 0
    stone.unlink()
    assert [launch.wait() for launch in (first, urgent, second)] == [0, 0, 0]
    began = "SELECT {}(started_at) FROM runs JOIN trials USING (trial_id) JOIN studies USING "
    began += "(study_id) WHERE name = '{}'"
    (last_urgent,) = world.sql(began.format("max", "urgent"))[0]
    (first_of_second,) = world.sql(began.format("min", "second"))[0]
    (last_of_first,) = world.sql(began.format("max", "first"))[0]
    assert last_urgent <= first_of_second
    assert last_urgent <= last_of_first <= first_of_second
    world.assert_nothing_left()


def queued(world: World, study: str) -> Any:
    """Its place in the queue, as `sweeper status` shows it."""
    return (world.status(study).get("launcher") or {}).get("queue")


def expire_lease(world: World) -> None:
    execute(world, "UPDATE launchers SET lease_until = acquired_at")


def execute(world: World, statement: str) -> None:
    engine = open_writer(world.url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def _is_named(process: psutil.Process, name: str) -> bool:
    try:
        return process.name() == name
    except psutil.NoSuchProcess:
        return False


def _is_stopped(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
