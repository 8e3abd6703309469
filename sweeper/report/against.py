"""A trial against the baseline: before, after, the factor between them and its interval.

The first line is the speed-up at equal return (`report.speedup`); the others compare means over
runs. Each run keeps the budget it had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeper.report.hardware import Shared, on_the_same
from sweeper.report.metrics import format_number
from sweeper.report.quickest import Quickest
from sweeper.report.speedup import EQUAL_SHARE, SpeedUp
from sweeper.report.tables import Table
from sweeper.store.rows import RunRow, SlotRow


@dataclass(frozen=True, slots=True)
class Quantity:
    """One line of the table."""

    name: str
    before: float | None
    """Mean over the runs of the baseline."""
    after: float | None
    """Mean over the runs of the trial."""
    factor: float | None
    """before / after for the time, after / before for the others; None where that says nothing,
    as it does between returns of which one is not positive."""
    low: float | None
    """95% interval, bootstrap over the runs of both; None where a side has one run, of whose noise
    nothing is known."""
    high: float | None


@dataclass(frozen=True, slots=True)
class Paired:
    """The runs of the two that were made on the same hardware, and their comparison. Where they
    share none: all of their runs, and no factors, which would be the machines' as well."""

    before: Sequence[RunRow]
    after: Sequence[RunRow]
    hardware_before: list[str]
    """Classes of these runs, as far as they are known."""
    hardware_after: list[str]
    is_fair: bool
    """Whether they share the hardware."""
    quantities: tuple[Quantity, ...]


def paired(
    baseline: Sequence[RunRow],
    trial: Sequence[RunRow],
    study_runs: Sequence[SlotRow],
    quickest: Quickest | None,
) -> Paired:
    """Compare the COMPLETED runs of both; `study_runs` know the hardware, and `quickest` is what
    the curves of the same runs say, if anything."""
    classes = {run.run_id: run.hardware_class for run in study_runs}

    def class_of(run: RunRow) -> str | None:
        return classes.get(run.run_id)

    def named(runs: Sequence[RunRow]) -> list[str]:
        return sorted({name for run in runs if (name := class_of(run)) is not None})

    if quickest is None:
        shared = on_the_same(baseline, trial, class_of)
    else:  # where the time was measured, the rest is
        known = quickest.hardware
        on_it = [[run for run in side if class_of(run) == known] for side in (baseline, trial)]
        shared = Shared(known, on_it[0], on_it[1])
    before, after = (baseline, trial) if shared is None else (shared.before, shared.after)
    quantities = against(before, after, quickest.result if quickest else None)
    if shared is None:
        quantities = tuple(replace(q, factor=None, low=None, high=None) for q in quantities)
    return Paired(before, after, named(before), named(after), shared is not None, quantities)


def against(
    baseline: Sequence[RunRow], trial: Sequence[RunRow], result: SpeedUp | None
) -> tuple[Quantity, ...]:
    """The lines of the table, from COMPLETED runs of both and what `speed_up` made of them."""
    time = f"training time to {EQUAL_SHARE:.1%} of the baseline's gain (s)"
    first = (
        Quantity(time, None, None, None, None, None)
        if result is None
        else Quantity(
            time, result.baseline_seconds, result.seconds, result.ratio, result.low, result.high
        )
    )
    return (
        first,
        *(_compared(name, value, baseline, trial) for name, value in _MEASURED.items()),
    )


def against_table(quantities: Sequence[Quantity], *, trial: int) -> Table:
    """The same in words."""
    return Table(
        head=("", "baseline", f"trial {trial}", "factor", "95% interval"),
        rows=tuple(
            (
                each.name,
                format_number(each.before),
                format_number(each.after),
                format_number(each.factor),
                ""
                if each.low is None or each.high is None
                else f"{format_number(each.low)} to {format_number(each.high)}",
            )
            for each in quantities
        ),
    )


def _cores_used(run: RunRow) -> float | None:
    if run.cpu_seconds is None or not run.elapsed_seconds:
        return None
    return run.cpu_seconds / run.elapsed_seconds


_MEASURED: dict[str, Callable[[RunRow], float | None]] = {
    "final return": lambda run: run.final_return,
    "training speed (env steps/s)": lambda run: run.steps_per_second,
    "CPU used (cores)": _cores_used,
}


def _compared(
    name: str,
    value: Callable[[RunRow], float | None],
    baseline: Sequence[RunRow],
    trial: Sequence[RunRow],
    *,
    resamples: int = 2000,
) -> Quantity:
    before = np.array([v for run in baseline if (v := value(run)) is not None])
    after = np.array([v for run in trial if (v := value(run)) is not None])
    old, new = (float(side.mean()) if len(side) else None for side in (before, after))
    if not len(before) or not len(after) or min(before.min(), after.min()) <= 0:
        return Quantity(name, old, new, None, None, None)
    low = high = None
    if len(before) > 1 and len(after) > 1:
        draw = np.random.default_rng(0)
        drawn = [draw.choice(side, (resamples, len(side))).mean(axis=1) for side in (before, after)]
        low, high = (float(v) for v in np.quantile(drawn[1] / drawn[0], (0.025, 0.975)))
    return Quantity(name, old, new, float(after.mean() / before.mean()), low, high)
