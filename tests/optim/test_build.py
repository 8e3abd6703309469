from __future__ import annotations

import pytest
import torch

from sweeper.optim.build import Optimizer
from sweeper.optim.spec import (
    AdamSpec,
    AdamWSpec,
    LinearSchedule,
    OptimizerSpec,
    RMSpropSpec,
    SGDSpec,
)

SPECS: list[OptimizerSpec] = [
    AdamSpec(learning_rate=0.01),
    AdamWSpec(learning_rate=0.01),
    RMSpropSpec(learning_rate=0.01),
    SGDSpec(learning_rate=0.01),
]


def parameter() -> torch.Tensor:
    flat = torch.linspace(-1, 1, 7).requires_grad_()
    flat.grad = torch.zeros_like(flat)
    return flat


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_steps_go_downhill(spec: OptimizerSpec) -> None:
    flat = parameter()
    optimizer = Optimizer(spec, flat, max_grad_norm=None)
    before = flat.detach().square().sum().item()
    for _ in range(20):
        assert flat.grad is not None
        flat.grad.copy_(2 * flat.detach())
        optimizer.step()
    assert flat.detach().square().sum().item() < before


def test_the_rate_applied_is_the_scheduled_one() -> None:
    flat = parameter()
    spec = SGDSpec(learning_rate=0.5, momentum=0.0, schedule=LinearSchedule())
    optimizer = Optimizer(spec, flat, max_grad_norm=None)
    for progress, rate in ((0.0, 0.5), (0.5, 0.25), (1.0, 0.0)):
        before = flat.detach().clone()
        assert flat.grad is not None
        flat.grad.fill_(1.0)
        optimizer.set_progress(progress)
        optimizer.step()
        torch.testing.assert_close(before - flat.detach(), torch.full((7,), rate))


def test_the_norm_is_reported_unclipped_and_the_step_is_clipped() -> None:
    flat = parameter()
    spec = SGDSpec(learning_rate=1.0, momentum=0.0)
    optimizer = Optimizer(spec, flat, max_grad_norm=0.5)
    before = flat.detach().clone()
    assert flat.grad is not None
    flat.grad.fill_(3.0)
    assert optimizer.step().grad_norm == pytest.approx(3.0 * 7**0.5)
    assert (before - flat.detach()).norm().item() == pytest.approx(0.5)


def test_a_small_gradient_is_left_alone() -> None:
    flat = parameter()
    optimizer = Optimizer(SGDSpec(learning_rate=1.0, momentum=0.0), flat, max_grad_norm=0.5)
    before = flat.detach().clone()
    assert flat.grad is not None
    flat.grad.fill_(0.01)
    optimizer.step()
    torch.testing.assert_close(before - flat.detach(), torch.full((7,), 0.01))
