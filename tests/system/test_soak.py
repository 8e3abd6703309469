"""The short form of benchmarks/soak.py."""

from __future__ import annotations

import os
import random

import pytest
from system.launching import World
from system.soaking import Soak


@pytest.mark.system
@pytest.mark.timeout(600)
def test_nothing_is_lost_twice_or_left_whatever_dies_whenever(world: World) -> None:
    seed = int(os.environ.get("SWEEPER_SOAK_SEED") or random.SystemRandom().randrange(10**6))
    soak = Soak(world, seed=seed, trials=12, most_kills=5, most_launcher_kills=1)
    soak.run()
    assert soak.killed.total() > 0
    soak.assert_nothing_is_lost_twice_or_left()
