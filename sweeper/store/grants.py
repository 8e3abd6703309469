"""A PostgreSQL role that may read a results database and nothing else."""

from __future__ import annotations

import re
import secrets

from sqlalchemy import text

from sweeper.core.errors import InputError
from sweeper.store.connect import open_writer, parse_url, require_current


def grant_reader(url: str, role: str) -> str:
    """Make `role`, able to log in and to SELECT; returns the URL to read with, password in it.

    A role of that name is given a new password, and keeps whatever else it may do. The database
    is opened with `url`, which must be its owner's. Tables of later releases are readable too.
    Raises InputError for SQLite, whose files have permissions instead, or a role name that
    would need quoting; DatabaseError where the database refuses.
    """
    parsed = parse_url(url)
    if parsed.drivername == "sqlite":
        raise InputError(
            "SQLite has no roles: `chmod` decides who may read the file, "
            "and `sweeper query` and `sweeper dashboard` only ever read"
        )
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", role):
        raise InputError(f"a role is named by lower-case letters, digits and _, got {role!r}")
    password = secrets.token_urlsafe(24)  # of an alphabet that needs no quoting in SQL
    engine = open_writer(url)
    try:
        with engine.begin() as connection:
            require_current(connection)
            there = connection.scalar(
                text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}
            )
            schema = connection.scalar(text("SELECT quote_ident(current_schema())"))
            database = connection.scalar(text("SELECT quote_ident(current_database())"))
            for statement in (
                f"{'ALTER' if there else 'CREATE'} ROLE {role} LOGIN PASSWORD '{password}'",
                f"ALTER ROLE {role} SET default_transaction_read_only = on",
                f"GRANT CONNECT ON DATABASE {database} TO {role}",
                f"GRANT USAGE ON SCHEMA {schema} TO {role}",
                f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
                f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}",
            ):
                connection.exec_driver_sql(statement)
    finally:
        engine.dispose()
    return parsed.set(username=role, password=password).render_as_string(hide_password=False)
