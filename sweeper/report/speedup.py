"""Speed-up at equal return: the headline of a study.

The target is R* = R_0 + q (R_B - R_0): the share q of the way from where the baseline began,
R_0, to where it stood at its own deadline, R_B. Both are its training return (mean of the last
100 episodes, the policy as it explores), means over its seeds. Counted from R_0 and not from
zero, the target means the same for environments whose returns are negative.

speed-up = (seconds until the baseline first reaches R*) / (seconds until the configuration does)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

EQUAL_SHARE = 0.973
"""q: the share of the baseline's improvement that counts as equal to it."""

Floats = NDArray[np.float64]


class Point(Protocol):
    """A measurement."""

    @property
    def elapsed_seconds(self) -> float:
        """Training seconds so far."""

    @property
    def training_return(self) -> float | None:
        """None before the first episode has ended."""


Curve = Sequence[Point]
"""The measurements of one run, in order."""


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """How much sooner a configuration is as good as the baseline ends up."""

    ratio: float
    low: float | None
    """95% interval, bootstrap over seeds; None where a side has one. 0 stands for seeds that do
    not reach the target."""
    high: float | None
    target_return: float
    seconds: float
    """Mean over its runs."""
    baseline_seconds: float
    n_runs: int
    n_baseline_runs: int


def speed_up(
    baseline: Sequence[Curve],
    configuration: Sequence[Curve],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> SpeedUp | None:
    """Compare the runs of a configuration with those of the baseline.

    None where it is not defined: without a curve on either side, where the baseline did not
    improve, where none of its runs reaches R*, or where some run of the configuration does not.
    A baseline run that does not reach R* (the mean of several may lie above it) counts with its
    whole time, which understates the speed-up.
    """
    slow = [reached for curve in baseline if (reached := _Reached.of(curve)) is not None]
    fast = [reached for curve in configuration if (reached := _Reached.of(curve)) is not None]
    if not slow or not fast or len(fast) < len(configuration):
        return None
    everyone = [np.arange(len(slow))[None], np.arange(len(fast))[None]]
    target, slow_seconds, fast_seconds = _times(slow, fast, *everyone)
    improved = target[0] > np.mean([run.first for run in slow])
    if not improved or not np.isfinite(fast_seconds[0]):
        return None
    if not any(np.isfinite(run.seconds(target)[0]) for run in slow):
        return None
    low = high = None
    if len(slow) > 1 and len(fast) > 1:
        draw = np.random.default_rng(seed)
        chosen = [draw.integers(len(side), size=(resamples, len(side))) for side in (slow, fast)]
        _, slow_drawn, fast_drawn = _times(slow, fast, *chosen)
        low, high = (float(v) for v in np.quantile(slow_drawn / fast_drawn, (0.025, 0.975)))
    return SpeedUp(
        ratio=float(slow_seconds[0] / fast_seconds[0]),
        low=low,
        high=high,
        target_return=float(target[0]),
        seconds=float(fast_seconds[0]),
        baseline_seconds=float(slow_seconds[0]),
        n_runs=len(fast),
        n_baseline_runs=len(slow),
    )


def seconds_to_reach(curve: Curve, target_return: float) -> float | None:
    """Elapsed seconds of the first measurement whose training return is at least the target."""
    for row in curve:
        if row.training_return is not None and row.training_return >= target_return:
            return row.elapsed_seconds
    return None


@dataclass(frozen=True, slots=True)
class _Reached:
    """When one run first reached each return."""

    first: float
    final: float
    best_so_far: Floats
    """[n], not decreasing."""
    elapsed: Floats
    """[n] seconds."""

    @classmethod
    def of(cls, curve: Curve) -> _Reached | None:
        known = [
            (row.elapsed_seconds, row.training_return)
            for row in curve
            if row.training_return is not None
        ]
        if not known:
            return None
        elapsed, returns = np.array(known, dtype=np.float64).T
        return cls(returns[0], returns[-1], np.maximum.accumulate(returns), elapsed)

    def seconds(self, targets: Floats) -> Floats:
        """[k] -> [k]; infinity where it is not reached."""
        index = np.searchsorted(self.best_so_far, targets, side="left")
        return np.append(self.elapsed, np.inf)[index]


def _times(
    slow: Sequence[_Reached],
    fast: Sequence[_Reached],
    slow_chosen: NDArray[np.int64],
    fast_chosen: NDArray[np.int64],
) -> tuple[Floats, Floats, Floats]:
    """R* and mean seconds of both sides, for each draw of seeds.

    slow_chosen: [draws, n_slow], fast_chosen: [draws, n_fast]. Returns three of [draws].
    """
    first = np.array([run.first for run in slow])[slow_chosen].mean(axis=1)
    final = np.array([run.final for run in slow])[slow_chosen].mean(axis=1)
    target = first + EQUAL_SHARE * (final - first)
    ended = np.array([run.elapsed[-1] for run in slow])[:, None]
    slow_seconds = np.minimum(np.array([run.seconds(target) for run in slow]), ended)
    fast_seconds = np.array([run.seconds(target) for run in fast])
    draws = np.arange(len(target))[:, None]
    return (
        target,
        slow_seconds[slow_chosen, draws].mean(axis=1),
        fast_seconds[fast_chosen, draws].mean(axis=1),
    )
