"""Speed-up at equal return: the headline of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.store.queries import MeasurementRow

EQUAL_SHARE = 0.973
"""Share of the baseline's return that counts as equal to it."""

Curve = Sequence[MeasurementRow]
"""The measurements of one run, in order."""


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """How much sooner a configuration is as good as the baseline ends up."""

    ratio: float
    target_return: float
    seconds: float
    """Mean over its runs."""
    baseline_seconds: float
    n_runs: int
    n_baseline_runs: int


def speed_up(baseline: Sequence[Curve], configuration: Sequence[Curve]) -> SpeedUp | None:
    """(seconds until the baseline first reaches R*) / (seconds until the configuration does).

    R* is 0.973 times the baseline's training return at its own deadline, mean over its runs.
    None where any run does not reach it, or where R* is not positive: a share of a negative
    return would ask for more than the baseline gave.
    """
    finals = [final for curve in baseline if (final := _final_return(curve)) is not None]
    if not finals or not configuration:
        return None
    target = EQUAL_SHARE * float(np.mean(finals))
    if target <= 0:
        return None
    slow = [seconds_to_reach(curve, target) for curve in baseline]
    fast = [seconds_to_reach(curve, target) for curve in configuration]
    reached_slow = [seconds for seconds in slow if seconds is not None]
    reached_fast = [seconds for seconds in fast if seconds is not None]
    if len(reached_slow) < len(slow) or len(reached_fast) < len(fast):
        return None
    baseline_seconds, seconds = float(np.mean(reached_slow)), float(np.mean(reached_fast))
    return SpeedUp(
        ratio=baseline_seconds / seconds,
        target_return=target,
        seconds=seconds,
        baseline_seconds=baseline_seconds,
        n_runs=len(fast),
        n_baseline_runs=len(slow),
    )


def seconds_to_reach(curve: Curve, target_return: float) -> float | None:
    """Elapsed seconds of the first measurement whose training return is at least the target."""
    for row in curve:
        if row.training_return is not None and row.training_return >= target_return:
            return row.elapsed_seconds
    return None


def _final_return(curve: Curve) -> float | None:
    return next((r.training_return for r in reversed(curve) if r.training_return is not None), None)
