"""First-order rules on one flat parameter p with gradient g, in place.

Not `torch.optim`: its optimizers walk lists of parameters and hooks, which for a vector of
ten thousand numbers takes longer than the arithmetic, and making the first of them imports
torch's compiler, a second in every new process. The formulas are torch's, and the tests hold
them to it.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Rule(Protocol):
    """How a gradient becomes a step."""

    state: dict[str, Tensor]
    """All that later steps depend on, but for the parameter itself."""

    def step(self, p: Tensor, g: Tensor, rate: float) -> None:
        """Move `p` [P] along its gradient `g` [P] at a learning rate."""
        ...


class Adam:
    """Adam (Kingma & Ba 2015), with decoupled weight decay (Loshchilov & Hutter 2019)::

        m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
        p = (1 - rate weight_decay) p - rate m' / (sqrt(v') + eps)

    with m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t).
    """

    def __init__(
        self, p: Tensor, *, beta1: float, beta2: float, eps: float, weight_decay: float = 0.0
    ) -> None:
        self._beta1, self._beta2, self._eps, self._decay = beta1, beta2, eps, weight_decay
        self._scratch = torch.zeros_like(p)
        self.state = {
            "m": torch.zeros_like(p),
            "v": torch.zeros_like(p),
            "t": torch.zeros((), dtype=torch.float64),
        }

    def step(self, p: Tensor, g: Tensor, rate: float) -> None:
        """See Rule."""
        m, v, t = self.state["m"], self.state["v"], self.state["t"].add_(1).item()
        if self._decay:
            p.mul_(1.0 - rate * self._decay)
        m.lerp_(g, 1.0 - self._beta1)
        v.mul_(self._beta2).addcmul_(g, g, value=1.0 - self._beta2)
        denominator = torch.sqrt(v, out=self._scratch)
        denominator.mul_((1.0 - self._beta2**t) ** -0.5).add_(self._eps)
        p.addcdiv_(m, denominator, value=-rate / (1.0 - self._beta1**t))


class RMSprop:
    """RMSprop (Tieleman & Hinton 2012)::

    v = alpha v + (1 - alpha) g^2;  p = p - rate g / (sqrt(v) + eps)
    """

    def __init__(self, p: Tensor, *, alpha: float, eps: float) -> None:
        self._alpha, self._eps = alpha, eps
        self._scratch = torch.zeros_like(p)
        self.state = {"v": torch.zeros_like(p)}

    def step(self, p: Tensor, g: Tensor, rate: float) -> None:
        """See Rule."""
        v = self.state["v"].mul_(self._alpha).addcmul_(g, g, value=1.0 - self._alpha)
        p.addcdiv_(g, torch.sqrt(v, out=self._scratch).add_(self._eps), value=-rate)


class SGD:
    """Gradient descent with a velocity::

    u = momentum u + g;  p = p - rate u
    """

    def __init__(self, p: Tensor, *, momentum: float) -> None:
        self._momentum = momentum
        self.state = {"u": torch.zeros_like(p)}

    def step(self, p: Tensor, g: Tensor, rate: float) -> None:
        """See Rule."""
        p.add_(self.state["u"].mul_(self._momentum).add_(g), alpha=-rate)
