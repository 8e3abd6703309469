"""progress in [0, 1] -> multiplier in [0, 1].

Schedules take progress through the budget and never an update count: under a wall-clock
budget nobody knows how many updates there will be.
"""

from __future__ import annotations

import math

from sweeper.optim.spec import (
    ConstantSchedule,
    CosineSchedule,
    DoubleLinearSchedule,
    LinearSchedule,
    MiddleDropSchedule,
    ScheduleSpec,
    WarmupCosineSchedule,
)


def multiplier(schedule: ScheduleSpec, progress: float) -> float:
    """What the base value is multiplied by at `progress`, which is clamped to [0, 1]."""
    p = min(1.0, max(0.0, progress))
    match schedule:
        case ConstantSchedule():
            return 1.0
        case LinearSchedule(final=final):
            return 1.0 + (final - 1.0) * p
        case CosineSchedule(final=final):
            return _half_cosine(p, final)
        case WarmupCosineSchedule(warmup=warmup, final=final):
            if p < warmup:
                return p / warmup
            return _half_cosine((p - warmup) / (1.0 - warmup), final)
        case MiddleDropSchedule(at=at, factor=factor):
            return 1.0 if p < at else factor
        case DoubleLinearSchedule(at=at, middle=middle):
            if p < at:
                return 1.0 + (middle - 1.0) * p / at
            return middle * (1.0 - p) / (1.0 - at)


def _half_cosine(p: float, final: float) -> float:
    return final + (1.0 - final) * (1.0 + math.cos(math.pi * p)) / 2.0
