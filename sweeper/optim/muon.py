"""Muon: momentum whose matrices are made orthogonal, and AdamW for the rest.

Jordan et al. 2024 (kellerjordan.github.io/posts/muon); the size of a step is that of Liu et al.
2025 (arXiv:2502.16982, section 2.2), as long as AdamW's, so that one learning rate serves all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sweeper.optim.first_order import Adam

A, B, C = 3.4445, -4.7750, 2.0315
"""Of the quintic a x + b x^3 + c x^5, which lifts small singular values fast and leaves all of
them between about 0.7 and 1.2."""
ITERATIONS = 5
LEAST_NORM = 1e-7


class Matrices(NamedTuple):
    """n matrices of one shape that lie one after the other in the flat parameter."""

    start: int
    shape: tuple[int, int, int]
    """n, rows, columns."""

    @property
    def size(self) -> int:
        """Numbers in them."""
        return math.prod(self.shape)

    def of(self, flat: Tensor) -> Tensor:
        """The view [n, rows, columns] of a flat vector."""
        matrices: Tensor = flat[self.start : self.start + self.size].view(self.shape)
        return matrices


def orthogonalized(x: Tensor) -> Tensor:
    """U V^T, roughly, of x = U S V^T: matrices [n, rows, columns], by Newton-Schulz."""
    is_tall = x.shape[1] > x.shape[2]
    y = x.mT if is_tall else x
    y = y / torch.linalg.matrix_norm(y, keepdim=True).clamp(min=LEAST_NORM)
    for _ in range(ITERATIONS):
        gram = y @ y.mT
        y = A * y + (B * gram + C * gram @ gram) @ y
    result: Tensor = y.mT if is_tall else y
    return result


class Muon:
    """See `Rule`. For each of the matrices W, with gradient G::

    M = momentum M + (1 - momentum) G;  N = momentum M + (1 - momentum) G
    W = (1 - rate weight_decay) W - rate 0.2 sqrt(max(rows, columns)) orthogonalized(N)
    """

    def __init__(
        self,
        p: Tensor,
        matrices: Sequence[Matrices],
        *,
        momentum: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
    ) -> None:
        self._matrices = matrices
        self._momentum, self._decay = momentum, weight_decay
        is_rest = torch.ones_like(p, dtype=torch.bool)
        for part in matrices:
            part.of(is_rest).fill_(False)
        self._rest = is_rest.nonzero()[:, 0]
        self._adam = Adam(
            p[self._rest], beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay
        )
        self.state = {"M": torch.zeros_like(p), **self._adam.state}

    def step(self, p: Tensor, g: Tensor, rate: float) -> None:
        """See Rule."""
        rest = p[self._rest]
        self._adam.step(rest, g[self._rest], rate)
        p[self._rest] = rest
        momentum = self.state["M"].lerp_(g, 1.0 - self._momentum)
        ahead = torch.lerp(g, momentum, self._momentum)  # Nesterov's
        for part in self._matrices:
            w, direction = part.of(p), orthogonalized(part.of(ahead))
            w.mul_(1.0 - rate * self._decay)
            w.add_(direction, alpha=-rate * 0.2 * math.sqrt(max(part.shape[1:])))
