from __future__ import annotations

import pytest
import torch

from sweeper.optim.build import Optimizer
from sweeper.optim.kfac import FisherBlocks, LayerSample, LinearGradient
from sweeper.optim.spec import (
    AdamSpec,
    AdamWSpec,
    KFACSpec,
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


def under_kfac(spec: KFACSpec) -> tuple[torch.Tensor, Optimizer]:
    """Six weights and a bias of one unit whose Fisher matrix is the identity."""
    flat = parameter()
    assert flat.grad is not None
    blocks = FisherBlocks([LinearGradient(flat.grad[:6].view(1, 1, 6), flat.grad[6:].view(1, 1))])
    optimizer = Optimizer(spec, flat, max_grad_norm=None, blocks=blocks)
    assert optimizer.kfac is not None
    design = torch.ones(8, 7)  # orthogonal columns of +-1, the last all 1
    for column in range(6):
        bit, other = divmod(column, 3)
        rows = torch.arange(8)
        design[:, column] = 1.0 - 2.0 * ((rows >> other) & 1)
        if bit:
            design[:, column] *= 1.0 - 2.0 * ((rows >> (other + 1) % 3) & 1)
    optimizer.kfac.observe([LayerSample(design[None, :, :6], torch.ones(1, 8, 1))])
    return flat, optimizer


KFAC = KFACSpec(learning_rate=0.25, momentum=0.9, damping=1e-6, cold_iter=0, clip_kl=1e9)


def test_kfac_steps_by_the_rate_it_is_scheduled() -> None:
    flat, optimizer = under_kfac(KFAC.model_copy(update={"momentum": 0.0}))
    for progress, rate in ((0.0, 0.25), (0.5, 0.125), (1.0, 0.0)):
        before = flat.detach().clone()
        assert flat.grad is not None
        flat.grad.fill_(1.0)
        optimizer.set_progress(progress)
        optimizer.step()
        torch.testing.assert_close(before - flat.detach(), torch.full((7,), rate))


def test_kfac_trust_region_is_that_of_the_scheduled_rate() -> None:
    _, optimizer = under_kfac(KFAC.model_copy(update={"clip_kl": 1e-3}))
    nus = []
    for progress in (0.0, 0.5):
        assert optimizer._parameter.grad is not None
        optimizer._parameter.grad.fill_(1.0)
        optimizer.set_progress(progress)
        nus.append(optimizer.step().kfac_nu)
    # <V, F^-1 V> = 7
    assert nus == pytest.approx([(1e-3 / (0.25**2 * 7)) ** 0.5, (1e-3 / (0.125**2 * 7)) ** 0.5])


def test_kfac_momentum_begins_with_a_tenth_and_never_exceeds_one_step() -> None:
    flat, optimizer = under_kfac(KFAC)
    moved = []
    for _ in range(60):
        before = flat.detach().clone()
        assert flat.grad is not None
        flat.grad.fill_(1.0)
        optimizer.set_progress(0.0)
        optimizer.step()
        moved.append((before - flat.detach())[0].item())
    assert moved[:2] == pytest.approx([0.25 * 0.1, 0.25 * 0.19], rel=1e-4)
    assert 0.249 < moved[-1] < 0.2501


def test_a_saved_optimizer_goes_on_where_it_was() -> None:
    one, first = under_kfac(KFAC)
    two, second = under_kfac(KFAC)
    for step in range(4):
        if step == 2:
            two.detach().copy_(one.detach())
            second.load_state_dict(first.state_dict())
        for flat, optimizer in ((one, first), (two, second))[: 1 + (step >= 2)]:
            assert flat.grad is not None
            flat.grad.fill_(1.0 + step)
            optimizer.step()
    assert torch.equal(one, two)
