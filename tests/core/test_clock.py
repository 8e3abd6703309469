from __future__ import annotations

import pytest
from pydantic import ValidationError

from sweeper.core.clock import BudgetSpec, Deadline, ManualClock, StopSignal


def test_a_budget_is_exactly_one_of_seconds_and_env_steps() -> None:
    for wrong in ({}, {"seconds": 1.0, "env_steps": 1}, {"seconds": 0}, {"env_steps": 0}):
        with pytest.raises(ValidationError):
            BudgetSpec.model_validate(wrong)


def test_seconds_expire_by_the_clock_and_not_by_steps() -> None:
    clock = ManualClock(100.0)
    deadline = Deadline(clock, BudgetSpec(seconds=10))
    deadline.env_steps = 10**9
    clock.advance(9.0)
    assert not deadline.expired
    assert deadline.progress == pytest.approx(0.9)
    clock.advance(1.5)
    assert deadline.expired
    assert deadline.out_of_time
    assert deadline.progress == 1.0
    assert deadline.overshoot_seconds == pytest.approx(0.5)


def test_env_steps_expire_without_being_out_of_time() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, BudgetSpec(env_steps=100))
    clock.advance(1e6)
    deadline.env_steps = 50
    assert not deadline.expired
    assert deadline.progress == 0.5
    deadline.env_steps = 101
    assert deadline.expired
    assert not deadline.out_of_time  # the last rollout is still learned from
    assert deadline.overshoot_seconds == 0.0


def test_a_stop_from_outside_reads_as_an_expired_deadline() -> None:
    stop = StopSignal()
    deadline = Deadline(ManualClock(), BudgetSpec(env_steps=100), stop=stop)
    assert not deadline.expired
    stop.requested = True
    assert deadline.expired
    assert deadline.out_of_time


def test_time_runs_forward() -> None:
    with pytest.raises(ValueError, match="forward"):
        ManualClock().advance(-1)
