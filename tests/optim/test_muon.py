from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sweeper.optim.build import Optimizer
from sweeper.optim.muon import Matrices, orthogonalized
from sweeper.optim.spec import AdamWSpec, MuonSpec

MATRICES = [Matrices(3, (2, 4, 6)), Matrices(60, (1, 8, 5))]
SIZE = 107


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("shape", [(2, 4, 6), (3, 9, 5), (1, 7, 7)])
def test_singular_values_go_near_one_and_directions_stay(shape: tuple[int, ...]) -> None:
    x = draw(*shape)
    u, s, v = torch.linalg.svd(orthogonalized(x), full_matrices=False)
    assert s.min() > 0.6
    assert s.max() < 1.3
    left, _, right = torch.linalg.svd(x, full_matrices=False)
    torch.testing.assert_close(u @ v, left @ right, atol=1e-6, rtol=0.0)


def test_nothing_is_made_of_a_gradient_of_zero() -> None:
    assert not orthogonalized(torch.zeros(1, 3, 4)).any()


def stepped(spec: Any, *, steps: int, matrices: list[Matrices]) -> Tensor:
    p = draw(SIZE, dtype=torch.float32).requires_grad_()
    optimizer = Optimizer(spec, p, max_grad_norm=None, matrices=matrices)
    for step in range(steps):
        p.grad = draw(SIZE, seed=step + 1, dtype=torch.float32)
        optimizer.step()
    return p.detach()


def test_matrices_step_as_under_torch_muon() -> None:
    ours = stepped(MuonSpec(learning_rate=0.05, weight_decay=0.3), steps=5, matrices=MATRICES)
    begun = draw(SIZE, dtype=torch.float32)
    for part in MATRICES:
        for index, matrix in enumerate(part.of(begun)):
            w = torch.nn.Parameter(matrix.clone())
            theirs = torch.optim.Muon(
                [w], lr=0.05, weight_decay=0.3, adjust_lr_fn="match_rms_adamw"
            )
            for step in range(5):
                w.grad = part.of(draw(SIZE, seed=step + 1, dtype=torch.float32))[index].clone()
                theirs.step()
            moved = (w.detach() - matrix).abs().max()
            # Theirs is orthogonalized in bfloat16, of 8 bits.
            assert (part.of(ours)[index] - w.detach()).abs().max() < 0.02 * moved


def test_the_rest_steps_as_under_adamw() -> None:
    ours = stepped(MuonSpec(weight_decay=0.3), steps=5, matrices=MATRICES)
    theirs = stepped(AdamWSpec(weight_decay=0.3), steps=5, matrices=[])
    for rows in (slice(3), slice(51, 60), slice(100, SIZE)):
        torch.testing.assert_close(ours[rows], theirs[rows])
    assert not torch.isclose(ours[3:51], theirs[3:51]).any()


def test_a_saved_state_goes_on_where_it_was() -> None:
    one, two = (draw(SIZE, dtype=torch.float32).requires_grad_() for _ in range(2))
    spec = MuonSpec(learning_rate=0.1)
    first = Optimizer(spec, one, max_grad_norm=None, matrices=MATRICES)
    second = Optimizer(spec, two, max_grad_norm=None, matrices=MATRICES)
    for step in range(4):
        if step == 2:
            two.detach().copy_(one.detach())
            second.load_state_dict(first.state_dict())
        for p, optimizer in ((one, first), (two, second)) if step >= 2 else ((one, first),):
            p.grad = draw(SIZE, seed=step, dtype=torch.float32)
            optimizer.step()
    assert torch.equal(one, two)
