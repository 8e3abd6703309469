"""Creating, upgrading and refusing schemas, on both databases."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from sweeper.core.errors import DatabaseError
from sweeper.store import migrations, queries, schema, views
from sweeper.store.connect import open_writer
from sweeper.store.migrate import upgrade
from sweeper.store.queries import open_reader
from sweeper.store.store import Store


@pytest.fixture
def url(url, tmp_path):
    (tmp_path / "a folder").mkdir()
    return url


@pytest.fixture
def engine(url):
    engine = open_writer(url)
    yield engine
    engine.dispose()


def set_revision(engine, revision):
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :r"), {"r": revision})


def test_the_migrations_make_exactly_the_tables_of_the_schema(url, engine):
    upgrade(url)
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []


def test_the_migrations_end_where_this_release_is():
    scripts = ScriptDirectory(Path(migrations.__file__).parent)
    assert scripts.get_current_head() == schema.REVISION


def test_every_view_has_the_columns_that_are_told(url, engine):
    upgrade(url)
    inspector = inspect(engine)
    assert set(inspector.get_view_names()) == set(views.VIEW_COLUMNS)
    for view, columns in views.VIEW_COLUMNS.items():
        assert tuple(column["name"] for column in inspector.get_columns(view)) == columns, view


def test_upgrading_tells_what_it_did_and_may_be_repeated(url):
    assert upgrade(url) == (None, schema.REVISION)
    assert upgrade(url) == (schema.REVISION, schema.REVISION)
    open_reader(url).dispose()


RELEASED = sorted((Path(__file__).parent / "released").glob("*.db.gz"))


def test_every_older_schema_has_a_database_to_upgrade():
    assert [path.name.split(".")[0] for path in RELEASED] == [
        f"{number:04}" for number in range(1, int(schema.REVISION))
    ]


@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.name)
def test_a_database_of_an_older_release_is_upgraded_with_all_it_holds(released, tmp_path):
    url = f"sqlite:///{tmp_path / 'old.db'}"
    (tmp_path / "old.db").write_bytes(gzip.decompress(released.read_bytes()))
    with pytest.raises(DatabaseError, match="older sweeper"):
        open_reader(url)
    assert upgrade(url) == (released.name.split(".")[0], schema.REVISION)
    reader = open_reader(url)
    study = queries.study(reader, "a study")
    rows = queries.trials(reader, study.study_id)
    assert [row.status for row in rows] == ["COMPLETED", "COMPLETED", "DIVERGED", "RUNNING"]
    assert [row.final_return for row in rows] == [100.0, 200.0, None, None]
    assert rows[1].params == {"parallelism.n_envs": 2, "algorithm.optimizer.kind": "adam"}
    assert len(queries.measurements(reader, 2)) == 20
    reader.dispose()
    with Store.open(url) as store:
        store.add_event("asked", study_id=study.study_id)
    engine = open_writer(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    engine.dispose()


def test_an_empty_database_is_filled_by_a_writer_and_refused_to_a_reader(url, engine):
    with engine.connect():
        pass  # makes the file, on SQLite
    with pytest.raises(DatabaseError, match="is empty; `sweeper launch` fills it"):
        open_reader(url)
    Store.open(url).close()
    open_reader(url).dispose()


@pytest.mark.parametrize("opened", [Store.open, open_reader])
def test_an_older_database_says_what_to_type(url, engine, opened):
    upgrade(url)
    set_revision(engine, "0000")
    with pytest.raises(DatabaseError, match=r"older sweeper.*type `sweeper db upgrade --db "):
        opened(url)


@pytest.mark.parametrize("opened", [Store.open, open_reader, upgrade])
def test_a_newer_database_is_refused(url, engine, opened):
    upgrade(url)
    set_revision(engine, "0999")
    with pytest.raises(DatabaseError, match=r"newer sweeper.*install the newer release"):
        opened(url)


@pytest.mark.parametrize("opened", [Store.open, open_reader, upgrade])
def test_another_programs_database_is_refused_and_left_alone(url, engine, opened):
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE studies (study_id INTEGER, study_name TEXT)"))
        connection.execute(text("CREATE TABLE alembic_version (version_num TEXT)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('v3.2.0.a')"))
    with pytest.raises(DatabaseError, match="tables that are not sweeper's"):
        opened(url)
    assert len(inspect(engine).get_table_names()) == 2


def test_a_migration_that_fails_leaves_an_empty_database(url, engine, monkeypatch):
    def fail(connection):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("sweeper.store.migrate.create_views", fail)
    with pytest.raises(RuntimeError, match="disk"):
        Store.open(url)
    assert inspect(engine).get_table_names() == []
