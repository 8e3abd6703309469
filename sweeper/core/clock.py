"""Time that can be injected, and the budget that is spent on it.

A duration is always a difference of `Clock.now()`; wall-clock timestamps (UTC) are for
people and never subtracted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from pydantic import Field, model_validator

from sweeper.core.spec import Spec, invalid


class Clock(Protocol):
    """Seconds from an arbitrary origin that never run backwards."""

    def now(self) -> float:
        """Seconds since this clock's origin."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def __init__(self) -> None:
        self.now = time.perf_counter


class ManualClock:
    """A clock that stands still until it is told otherwise: time in tests is an argument."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds as last set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds` (>= 0)."""
        if seconds < 0:
            raise ValueError(f"time runs forward: cannot advance by {seconds} seconds")
        self._now += seconds


def utc_now() -> datetime:
    """The present moment, time-zone aware, for timestamps."""
    return datetime.now(UTC)


class BudgetSpec(Spec):
    """How long a trial may train. Exactly one of the two is given."""

    seconds: float | None = Field(default=None, gt=0)
    """Wall-clock seconds of training; a hard limit."""
    env_steps: int | None = Field(default=None, ge=1)
    """Environment steps over all environments; reproducible, for tests and replays."""

    @model_validator(mode="after")
    def _exactly_one(self) -> BudgetSpec:
        if (self.seconds is None) == (self.env_steps is None):
            raise invalid("", "give exactly one of `seconds` and `env_steps`")
        return self

    def __str__(self) -> str:
        return f"{self.seconds:g} s" if self.seconds is not None else f"{self.env_steps} env steps"


@dataclass(slots=True)
class StopSignal:
    """Set from outside (a gentle Ctrl-C, a pruner); a trial sees it at its deadline checks."""

    requested: bool = False
    pruned: str | None = None
    """Why a pruner asked, if it was one: the trial is given up, not to be run again."""


@dataclass(slots=True)
class Deadline:
    """A budget that is running: how far along it is, and whether it is spent.

    Looked at after every vector step and every minibatch. Both kinds of budget report the
    same `progress`, which is all that schedules ever see. A requested `stop` reads as an
    expired deadline.
    """

    clock: Clock
    budget: BudgetSpec
    env_steps: int = 0
    """Since training began here."""
    stop: StopSignal = field(default_factory=StopSignal)
    spent_env_steps: int = 0
    """Before that, by the training that this one goes on from."""
    spent_seconds: float = 0.0
    """Likewise."""
    started_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.started_at = self.clock.now()

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since training began here."""
        return self.clock.now() - self.started_at

    @property
    def progress(self) -> float:
        """Share of the budget that is spent, in [0, 1]."""
        if self.budget.seconds is not None:
            return min(1.0, (self.spent_seconds + self.elapsed_seconds) / self.budget.seconds)
        assert self.budget.env_steps is not None
        return min(1.0, (self.spent_env_steps + self.env_steps) / self.budget.env_steps)

    @property
    def out_of_time(self) -> bool:
        """Whether to drop everything: the seconds are spent, or someone said stop."""
        seconds = self.budget.seconds
        return self.stop.requested or (
            seconds is not None and self.spent_seconds + self.elapsed_seconds >= seconds
        )

    @property
    def expired(self) -> bool:
        """Whether collecting must end; steps that are paid for may still be learned from
        unless `out_of_time`."""
        steps = self.budget.env_steps
        return self.out_of_time or (
            steps is not None and self.spent_env_steps + self.env_steps >= steps
        )

    @property
    def overshoot_seconds(self) -> float:
        """Seconds past a wall-clock budget; 0 for a budget of env steps."""
        if self.budget.seconds is None:
            return 0.0
        return max(0.0, self.spent_seconds + self.elapsed_seconds - self.budget.seconds)
