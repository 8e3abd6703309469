"""The database goes away amid a study and comes back: nothing is lost, and nothing twice."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from postgresql import crash
from system.launching import Command, World, eventually

pytestmark = pytest.mark.system

AWAY = "what is measured is kept on this machine, and no trial begins until it is back"
ENDED = '"kind": "ended"'


@pytest.fixture
def on_postgres(world: World, own_postgres: Any) -> World:
    world.url = own_postgres.get_uri("postgres").replace("postgresql://", "postgresql+psycopg://")
    return world


def test_postgresql_that_crashes_and_comes_back(on_postgres: World, own_postgres: Any) -> None:
    world = on_postgres
    world.study(stop={"trials": 6}, trial={"budget": {"seconds": 2}})
    launch = world.launch()
    eventually(world.is_amid)
    with crashed(own_postgres):
        eventually(lambda: ENDED in world.spooled)  # a trial went on to its end
        assert AWAY in launch.text
        status = world.start("status")
        assert status.wait() == 2
        assert "Traceback" not in status.text
    assert launch.wait() == 0, launch.text
    assert_nothing_lost(world, launch, 6)


def test_postgresql_that_stands_still(on_postgres: World, own_postgres: Any) -> None:
    world = on_postgres
    world.study(stop={"trials": 3}, trial={"budget": {"seconds": 2}})
    launch = world.launch()
    eventually(world.is_amid)
    with suspended(own_postgres):
        eventually(lambda: not world.env_workers())  # the trials go on to their ends
    assert launch.wait() == 0, launch.text
    world.assert_complete(3)
    assert world.sql("SELECT count(*), max(attempt) FROM runs") == [(3, 1)]


def test_a_launcher_that_dies_during_an_outage_loses_nothing_that_had_ended(
    on_postgres: World, own_postgres: Any
) -> None:
    world = on_postgres
    world.study(stop={"trials": 4}, concurrency=1, trial={"budget": {"seconds": 2}})
    launch = world.launch()
    eventually(world.training)
    ((run_id,),) = world.sql("SELECT run_id FROM runs WHERE status = 'RUNNING'")
    with crashed(own_postgres):
        eventually(lambda: ENDED in world.spooled)
        launch.signal(signal.SIGKILL)
        launch.wait()
        world.assert_nothing_left()
    assert world.sql("SELECT status FROM runs ORDER BY run_id DESC LIMIT 1") == [("RUNNING",)]
    (spool,) = world.status("matching")["spools"]
    assert spool["entries"] >= 1
    status = world.start("status")
    assert status.wait() == 0
    assert f"wait in {spool['path']}; the next launch writes them" in status.text
    assert world.launch().wait() == 0
    assert world.status("matching")["spools"] == []
    assert not Path(spool["path"]).exists()
    assert world.sql(f"SELECT status FROM runs WHERE run_id = {run_id}") == [("COMPLETED",)]
    world.assert_complete()
    assert world.sql("SELECT count(*), max(attempt) FROM runs") == [(4, 1)]


def test_postgresql_that_takes_no_writes_for_a_while(world: World, postgres_server: Any) -> None:
    postgres_server.psql("CREATE DATABASE standby;")
    url = postgres_server.get_uri("standby")
    world.url = url.replace("postgresql://", "postgresql+psycopg://")
    world.study(stop={"trials": 4}, trial={"budget": {"seconds": 2}})
    launch = world.launch()
    eventually(world.is_amid)
    only_read(postgres_server, "on")
    eventually(lambda: ENDED in world.spooled)
    eventually(lambda: "read-only transaction" in launch.text)
    assert AWAY in launch.text
    only_read(postgres_server, "off")
    assert launch.wait() == 0, launch.text
    assert_nothing_lost(world, launch, 4)


def test_sqlite_that_another_process_locks_for_longer_than_it_is_waited_for(world: World) -> None:
    world.study(trial={"budget": {"seconds": 2}})
    launch = world.launch()
    eventually(world.is_amid)
    with contextlib.closing(sqlite3.connect(world.folder / "results.db", timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        eventually(lambda: AWAY in launch.text)
        eventually(lambda: ENDED in world.spooled)
        other.rollback()
    assert "database is locked; another process holds it" in launch.text
    assert launch.wait() == 0, launch.text
    assert_nothing_lost(world, launch, 4)


def test_a_disk_that_is_full_for_a_while(world: World, small_disk: Path) -> None:
    world.url = f"sqlite:///{small_disk / 'results.db'}"
    world.study(trial={"budget": {"seconds": 2}})
    launch = world.launch()
    eventually(world.is_amid)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))
    eventually(lambda: AWAY in launch.text)
    eventually(lambda: ENDED in world.spooled)
    assert "disk is full; make room on that disk" in launch.text
    filler.unlink()
    assert launch.wait() == 0, launch.text
    assert_nothing_lost(world, launch, 4)
    with contextlib.closing(sqlite3.connect(small_disk / "results.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("nothing may be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def crashed(server: Any) -> Iterator[None]:
    """The server has stopped at once, as in a crash, and is started again afterwards."""
    crash(server)
    try:
        yield
    finally:
        server.ensure_postgres_running()


@contextlib.contextmanager
def suspended(server: Any) -> Iterator[None]:
    """No process of the server does anything."""
    postmaster = psutil.Process(server.get_pid())
    postmaster.suspend()  # first: it starts no others then
    processes = [postmaster, *postmaster.children()]
    try:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):  # it was just ending
                process.suspend()
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def only_read(server: Any, setting: str) -> None:
    """Let sessions on `standby` only read, or write again: these and new ones."""
    server.psql(
        f"ALTER DATABASE standby SET default_transaction_read_only = {setting};"
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'standby';"
    )


def assert_nothing_lost(world: World, launch: Command, n_trials: int) -> None:
    """As after an undisturbed study, but for the event that tells of the outage."""
    world.assert_complete(n_trials)
    assert launch.stderr.read_text() == ""
    assert world.spooled == ""
    assert world.sql("SELECT count(*), max(attempt) FROM runs") == [(n_trials, 1)]
    assert world.sql("SELECT DISTINCT count(*) FROM evaluations GROUP BY run_id") == [(4,)]
    assert world.sql("SELECT count(DISTINCT run_id) FROM measurements") == [(n_trials,)]
    for kind in ("asked", "started", "completed"):
        assert world.sql(
            f"SELECT count(*), count(DISTINCT trial_id) FROM events WHERE kind = '{kind}'"
        ) == [(n_trials, n_trials)]
    assert world.sql("SELECT count(*) FROM events WHERE kind = 'outage'") >= [(1,)]
    assert world.status("matching")["spools"] == []
