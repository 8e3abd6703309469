from __future__ import annotations

import pytest

from sweeper.core.clock import ManualClock
from sweeper.core.timing import PhaseTimer


def test_every_second_is_charged_to_the_innermost_open_phase() -> None:
    clock = ManualClock(5.0)
    timer = PhaseTimer(clock)
    timer.start()
    clock.advance(1)
    with timer("rollout"):
        clock.advance(2)
        with timer("env_wait"):
            clock.advance(4)
        clock.advance(8)
    clock.advance(16)
    timer.stop()
    own = {name: timer.own_seconds(name) for name in ("rollout", "env_wait", "other")}
    assert own == {"rollout": 10, "env_wait": 4, "other": 17}


def test_start_forgets_what_came_before() -> None:
    clock = ManualClock()
    timer = PhaseTimer(clock)
    with timer("rollout"):
        clock.advance(3)
    timer.start()
    clock.advance(1)
    timer.stop()
    assert timer.own_seconds("rollout") == 0
    assert timer.own_seconds("other") == 1


def test_a_phase_that_raises_is_left_and_charged() -> None:
    clock = ManualClock()
    timer = PhaseTimer(clock)
    timer.start()

    def update() -> None:
        with timer("update"):
            clock.advance(2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        update()
    clock.advance(1)
    timer.stop()
    assert timer.own_seconds("update") == 2
    assert timer.own_seconds("other") == 1
    assert timer.own_seconds("never") == 0
