"""The short form of benchmarks/soak.py."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from system.launching import World
from system.soaking import Soak

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("SWEEPER_SOAK_SEED") or random.SystemRandom().randrange(10**6))


def test_nothing_is_lost_twice_or_left_whatever_dies_whenever(world: World, seed: int) -> None:
    soak = Soak(world, seed=seed, trials=8, most_kills=5, most_launcher_kills=1)
    soak.run()
    assert soak.killed.total() > 0
    soak.assert_nothing_is_lost_twice_or_left()


def test_nothing_is_lost_twice_or_left_although_the_database_is_killed_as_well(
    world: World, own_postgres: Any, seed: int
) -> None:
    world.url = own_postgres.get_uri("postgres")
    soak = Soak(
        world, seed=seed, trials=8, most_kills=4, most_launcher_kills=1, postgres=own_postgres
    )
    soak.run()
    assert soak.killed["postgres"]
    soak.assert_nothing_is_lost_twice_or_left()
