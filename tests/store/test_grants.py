"""A reader's role, on a real PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from sweeper.core.errors import DatabaseError, InputError
from sweeper.store import queries
from sweeper.store.grants import grant_reader
from sweeper.store.queries import open_reader
from sweeper.store.store import Store


@pytest.mark.system
def test_a_granted_role_reads_everything_and_writes_nothing(postgres_url, example):
    with Store.open(postgres_url) as store:
        ref = example.study(store)
        example.finished(store, ref)
        reader_url = grant_reader(postgres_url, "analyst")
        assert reader_url != grant_reader(postgres_url, "analyst"), "a new password each time"
        reader_url = grant_reader(postgres_url, "analyst")
        reader = open_reader(reader_url)
        assert len(queries.trials(reader, ref.study_id)) == 1
        reader.dispose()
    # Without our own care for reading only: the database itself refuses.
    engine = create_engine(reader_url)
    for statement in (
        "DELETE FROM events",
        "INSERT INTO events (at, kind) VALUES (now(), 'x')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "CREATE TABLE public.mine (a integer)",
    ):
        with engine.connect() as connection:
            connection.execute(text("SET TRANSACTION READ WRITE"))
            with pytest.raises(ProgrammingError, match="permission denied"):
                connection.execute(text(statement))
    engine.dispose()


@pytest.mark.system
def test_an_empty_database_has_nothing_to_grant(postgres_url):
    with pytest.raises(DatabaseError, match="is empty"):
        grant_reader(postgres_url, "analyst")


def test_sqlite_has_no_roles(tmp_path):
    with pytest.raises(InputError, match="chmod"):
        grant_reader(f"sqlite:///{tmp_path}/x.db", "analyst")


def test_a_role_that_needs_quoting_is_refused():
    with pytest.raises(InputError, match="lower-case"):
        grant_reader("postgresql://h/n", 'x"; DROP TABLE trials')
