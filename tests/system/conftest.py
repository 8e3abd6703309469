"""A folder for each test to launch a study in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.register_assert_rewrite("system.launching")

from system.launching import World  # noqa: E402


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, f"sqlite:///{tmp_path / 'results.db'}")
    yield world
    for command in world.commands:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait()
    for process in world.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, world: World) -> World:
    """A world with its results in each kind of database."""
    if request.param == "postgresql":
        world.url = request.getfixturevalue("postgres_url")
    return world
