from __future__ import annotations

import math

import pytest

from sweeper.optim.schedules import multiplier
from sweeper.optim.spec import (
    ConstantSchedule,
    CosineSchedule,
    DoubleLinearSchedule,
    LinearSchedule,
    MiddleDropSchedule,
    ScheduleSpec,
    WarmupCosineSchedule,
)


@pytest.mark.parametrize(
    ("schedule", "points"),
    [
        (ConstantSchedule(), {0: 1, 0.3: 1, 1: 1}),
        (LinearSchedule(), {0: 1, 0.25: 0.75, 1: 0}),
        (LinearSchedule(final=0.2), {0: 1, 0.5: 0.6, 1: 0.2}),
        (CosineSchedule(), {0: 1, 1 / 3: 0.75, 0.5: 0.5, 1: 0}),  # falls, never rises
        (WarmupCosineSchedule(warmup=0.2), {0: 0, 0.1: 0.5, 0.2: 1, 0.6: 0.5, 1: 0}),
        (MiddleDropSchedule(at=0.5, factor=0.1), {0: 1, 0.499: 1, 0.5: 0.1, 1: 0.1}),
        (DoubleLinearSchedule(at=0.5, middle=0.4), {0: 1, 0.25: 0.7, 0.5: 0.4, 0.75: 0.2, 1: 0}),
    ],
    ids=lambda value: value.kind if not isinstance(value, dict) else "",
)
def test_schedule_at_points_worked_by_hand(
    schedule: ScheduleSpec, points: dict[float, float]
) -> None:
    for progress, expected in points.items():
        assert multiplier(schedule, progress) == pytest.approx(expected, abs=1e-12)


def test_progress_outside_the_budget_is_clamped() -> None:
    assert multiplier(LinearSchedule(), 1.7) == 0.0
    assert multiplier(LinearSchedule(), -0.1) == 1.0
    assert math.isclose(multiplier(CosineSchedule(final=0.5), 2.0), 0.5)
