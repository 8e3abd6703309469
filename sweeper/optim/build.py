"""OptimizerSpec -> a torch optimizer over one flat parameter, with clipping and schedule."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sweeper.optim.schedules import multiplier
from sweeper.optim.spec import AdamSpec, AdamWSpec, OptimizerSpec, RMSpropSpec, SGDSpec


class Optimizer:
    """Steps one flat parameter, whose gradient is in `parameter.grad`.

    All weights live in one vector (`sweeper.rl.policy`), so that clipping is one dot product
    and a step is one call of torch's optimizer, whatever the network's depth.
    """

    def __init__(self, spec: OptimizerSpec, parameter: Tensor, *, max_grad_norm: float | None):
        self._spec = spec
        self._parameter = parameter
        self._max_grad_norm = max_grad_norm
        self._torch = _build(spec, parameter)

    def learning_rate(self, progress: float) -> float:
        """The scheduled rate at `progress` in [0, 1]."""
        return self._spec.learning_rate * multiplier(self._spec.schedule, progress)

    def set_progress(self, progress: float) -> None:
        """Use the scheduled rate at `progress` from the next step on."""
        self._torch.param_groups[0]["lr"] = self.learning_rate(progress)

    def step(self) -> float:
        """Clip the gradient and step; returns its norm before clipping."""
        gradient = self._parameter.grad
        assert gradient is not None
        norm = math.sqrt(torch.dot(gradient, gradient).item())
        if self._max_grad_norm is not None and norm > self._max_grad_norm:
            gradient.mul_(self._max_grad_norm / norm)
        self._torch.step()
        return norm


def _build(spec: OptimizerSpec, parameter: Tensor) -> torch.optim.Optimizer:
    rate = spec.learning_rate
    match spec:
        case AdamSpec():
            return torch.optim.Adam(
                [parameter], lr=rate, betas=(spec.beta1, spec.beta2), eps=spec.eps, fused=True
            )
        case AdamWSpec():
            return torch.optim.AdamW(
                [parameter],
                lr=rate,
                betas=(spec.beta1, spec.beta2),
                eps=spec.eps,
                weight_decay=spec.weight_decay,
                fused=True,
            )
        case RMSpropSpec():
            return torch.optim.RMSprop([parameter], lr=rate, alpha=spec.alpha, eps=spec.eps)
        case SGDSpec():
            return torch.optim.SGD([parameter], lr=rate, momentum=spec.momentum, fused=True)
