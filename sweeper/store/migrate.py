"""Creating and upgrading the schema."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, func, select

from sweeper.store.connect import (
    open_writer,
    require_current,
    schema_revision,
)
from sweeper.store.schema import REVISION
from sweeper.store.views import create_views, drop_views

_WRITE_LOCK = 0x5EE9E4


def lock_for_writing(connection: Connection) -> None:
    """One writing transaction at a time, on PostgreSQL as SQLite has it by itself.

    What is read before it is written (a trial's number, a lease) then needs no retries.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_WRITE_LOCK)))


def upgrade(url: str) -> tuple[str | None, str]:
    """Bring a database to this release's schema, in one transaction.

    Returns the revision before (None: it was empty) and after. Raises DatabaseError for a
    newer database and for one that is not sweeper's.
    """
    engine = open_writer(url)
    try:
        with engine.begin() as connection:
            lock_for_writing(connection)
            before = schema_revision(connection)
            if before is not None and before > REVISION:
                require_current(connection)
            if before != REVISION:
                migrate(connection)
            return before, REVISION
    finally:
        engine.dispose()


def migrate(connection: Connection) -> None:
    """Run the missing migrations within the caller's transaction."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "sweeper.store:migrations")
    config.set_main_option("path_separator", "os")
    drop_views(connection)
    command.upgrade(config, "head")
    create_views(connection)
