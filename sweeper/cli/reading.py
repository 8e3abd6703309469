"""A results database for as long as a command reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from sweeper.store.queries import open_reader


@contextmanager
def reading(db: str) -> Iterator[Engine]:
    """Open for reading; raises DatabaseError as `open_reader` does."""
    engine = open_reader(db)
    try:
        yield engine
    finally:
        engine.dispose()
