"""Databases that cannot be opened, each with one line that says what to do."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from sweeper.core.errors import DatabaseError
from sweeper.store import queries
from sweeper.store.connect import network_file_system, open_writer, parse_url
from sweeper.store.queries import open_reader
from sweeper.store.store import Store


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can reach too."""
    path = Path(tempfile.mkdtemp(prefix="sweeper-test-"))
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user whom permissions bind; root is not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("opened", [Store.open, open_reader])
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sweeper.db", "the given text is no URL"),
        ("mysql://user:secret@host/name", "sqlite:///FILE or postgresql"),
        ("sqlite://", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("postgresql://user:secret@/name?host=/no/such/socket&password=secret", "is the server"),
        ("postgresql://user:secret@127.0.0.1:1/name", "is the server running"),
    ],
)
def test_a_database_that_is_none_or_out_of_reach(opened, url, told):
    with pytest.raises(DatabaseError, match=told) as caught:
        opened(url)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_driver_of_postgresql_may_be_left_out():
    assert parse_url("postgresql://h/n") == parse_url("postgresql+psycopg://h/n")


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DatabaseError, match=f"there is no folder {tmp_path}/none"):
        Store.open(f"sqlite:///{tmp_path}/none/x.db")


def test_a_reader_creates_nothing(tmp_path):
    with pytest.raises(DatabaseError, match="no such file; `sweeper launch` creates it"):
        open_reader(f"sqlite:///{tmp_path}/x.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opened", [Store.open, open_reader])
@pytest.mark.parametrize(
    "content", [b"a text file, not a database\n" * 100, b"SQLite format 3\0" + b"\xff" * 900]
)
def test_a_file_that_is_no_database_is_left_as_it_was(opened, content, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"notes\.txt.*--db"):
        opened(f"sqlite:///{path}")
    assert path.read_bytes() == content


def test_a_damaged_file_is_told_as_such(tmp_path, example):
    path = tmp_path / "x.db"
    with Store.open(f"sqlite:///{path}") as store:
        ref = example.study(store)
        for _ in range(20):
            example.trial(store, ref)
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))

    def read() -> None:
        engine = open_reader(f"sqlite:///{path}")
        try:
            queries.trials(engine, ref.study_id)
        finally:
            engine.dispose()

    with pytest.raises(DatabaseError, match="the file is damaged; restore a copy"):
        read()


@pytest.mark.parametrize("opened", [Store.open, open_reader])
def test_a_directory_is_no_database(opened, tmp_path):
    with pytest.raises(DatabaseError, match="is a folder"):
        opened(f"sqlite:///{tmp_path}")


def test_a_file_that_may_not_be_written_is_refused_and_can_still_be_read(folder, example):
    url = f"sqlite:///{folder}/x.db"
    with Store.open(url) as store:
        example.study(store)
    (folder / "x.db").chmod(0o444)
    folder.chmod(0o555)
    with unprivileged():
        with pytest.raises(DatabaseError, match=r"readonly.*give write permission"):
            Store.open(url)
        archive = open_reader(url)
        assert queries.study(archive, None).name == "a study"
        archive.dispose()
    assert [path.name for path in folder.iterdir()] == ["x.db"]


def test_a_file_that_may_not_be_read_is_refused(folder):
    url = f"sqlite:///{folder}/x.db"
    Store.open(url).close()
    (folder / "x.db").chmod(0)
    with unprivileged():
        for opened in (Store.open, open_reader):
            with pytest.raises(DatabaseError, match="unable to open"):
                opened(url)


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "#1.db", "ü.db", "a&mode=rwc.db"])
def test_any_file_name_is_read_as_it_was_written(name, tmp_path):
    url = f"sqlite:///{tmp_path / name}"
    Store.open(url).close()
    assert (tmp_path / name).exists()
    open_reader(url).dispose()


def test_sqlite_is_opened_to_be_read_while_it_is_written(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/x.db"):
        engine = open_writer(f"sqlite:///{tmp_path}/x.db")
        with engine.connect() as connection:
            settings = {
                name: connection.scalar(text(f"PRAGMA {name}"))
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        engine.dispose()
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 1,
        "foreign_keys": 1,
        "busy_timeout": 30_000,
    }


def test_a_second_writer_waits_for_the_first(tmp_path, example):
    url = f"sqlite:///{tmp_path}/x.db"
    with Store.open(url) as store:
        ref = example.study(store)
        code = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
            "c.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read();"
            "c.execute('COMMIT'); c.close()"
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "x.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with holder:
            assert holder.stdout.readline() == b"held\n"
            # A connection that does not wait shows that the lock is held indeed.
            impatient = sqlite3.connect(tmp_path / "x.db", timeout=0, isolation_level=None)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                impatient.execute("BEGIN IMMEDIATE")
            impatient.close()
            holder.stdin.close()
            example.trial(store, ref)


def test_a_network_file_system_is_told_by_the_mount_that_holds_the_file(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\n"
        "server:/home /home nfs4 rw 0 0\n"
        "/dev/sdb /home/local xfs rw 0 0\n"
        "//server/share /mnt/my\\040share cifs rw 0 0\n"
        "user@host: /mnt/ssh fuse.sshfs rw 0 0\n"
    )
    found = {
        path: network_file_system(Path(path), mounts)
        for path in (
            "/x.db",
            "/home/me/x.db",
            "/homes/x.db",
            "/home/local/x.db",
            "/mnt/my share/x.db",
            "/mnt/ssh/x.db",
        )
    }
    assert found == {
        "/x.db": None,
        "/home/me/x.db": "nfs4",
        "/homes/x.db": None,
        "/home/local/x.db": None,
        "/mnt/my share/x.db": "cifs",
        "/mnt/ssh/x.db": "fuse.sshfs",
    }
    assert network_file_system(Path("/x.db"), tmp_path / "none") is None


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("sweeper.store.queries, sweeper.store.sql", "torch ray optuna gymnasium pandas alembic"),
        ("sweeper.store.store", "torch ray optuna gymnasium pandas"),
    ],
)
def test_the_heavy_packages_stay_unloaded(modules, heavy):
    code = f"import sys, {modules}; print(set({heavy!r}.split()) & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"set()\n"
