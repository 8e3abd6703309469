"""What tests of several floors share: a real PostgreSQL server, and the module `worlds`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

# Environments are named by dotted path, here and in every process that a test starts.
sys.path.insert(0, str(Path(__file__).parent))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
)

from postgresql import running_postgres


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests first: a plain mistake is told before anything slow begins."""
    order = ("slow", "system", "browser")

    def rank(item: pytest.Item) -> int:
        return max(
            (1 + order.index(m.name) for m in item.iter_markers() if m.name in order), default=0
        )

    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def _own_leases(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cores are leased in a folder of these tests: nobody else's trials are waited for."""
    os.environ["SWEEPER_LEASES"] = str(tmp_path_factory.mktemp("leases"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """The PostgreSQL of this test session."""
    with running_postgres() as server:
        # Nothing here outlives the session, so nothing need reach the disk.
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
        yield server


@pytest.fixture
def own_postgres() -> Iterator[Any]:
    """A PostgreSQL that a test may stop, and kill."""
    with running_postgres() as server:
        yield server


_numbers = count()


@pytest.fixture
def postgres_url(postgres_server: Any) -> str:
    """The URL of a new, empty database on it, as its superuser."""
    name = f"test_{next(_numbers)}"
    postgres_server.psql(f"CREATE DATABASE {name};")
    return postgres_server.get_uri(name).replace("postgresql://", "postgresql+psycopg://")
