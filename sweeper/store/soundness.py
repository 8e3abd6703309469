"""What may be wrong with a database that opens: damage, and a schema that somebody changed."""

from __future__ import annotations

from sqlalchemy import Connection, inspect

from sweeper.store.queries import open_reader
from sweeper.store.schema import metadata


def find_faults(url: str) -> list[str]:
    """One line a fault; empty for a sound database.

    SQLite's own checks read the whole file. Raises DatabaseError as `open_reader` does.
    """
    engine = open_reader(url)
    try:
        with engine.connect() as connection:
            faults = _missing_columns(connection)
            if engine.dialect.name == "sqlite":
                faults += _damage(connection)
            return faults
    finally:
        engine.dispose()


def _missing_columns(connection: Connection) -> list[str]:
    there_are = inspect(connection)
    faults = []
    for table in metadata.sorted_tables:
        if not there_are.has_table(table.name):
            faults.append(f"table {table.name} is missing")
            continue
        columns = {column["name"] for column in there_are.get_columns(table.name)}
        faults += [
            f"column {table.name}.{column.name} is missing"
            for column in table.columns
            if column.name not in columns
        ]
    return faults


def _damage(connection: Connection) -> list[str]:
    found = connection.exec_driver_sql("PRAGMA integrity_check").scalars()
    faults = [line for text in found for line in str(text).splitlines() if line != "ok"]
    strays = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return faults + [f"row {row[1]} of {row[0]} refers to a missing {row[2]}" for row in strays]
