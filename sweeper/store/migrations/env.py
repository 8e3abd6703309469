"""What alembic runs: migrate over the connection, and in the transaction, of the caller."""

from __future__ import annotations

from alembic import context

from sweeper.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
