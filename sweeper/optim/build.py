"""OptimizerSpec -> what steps one flat parameter: clipping, schedule, K-FAC where that is asked
for, and a first-order rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sweeper.optim.first_order import SGD, Adam, RMSprop, Rule
from sweeper.optim.kfac import KFAC, FisherBlocks
from sweeper.optim.muon import Matrices, Muon
from sweeper.optim.schedules import multiplier
from sweeper.optim.spec import (
    AdamSpec,
    AdamWSpec,
    KFACSpec,
    MuonSpec,
    OptimizerSpec,
    RMSpropSpec,
    SGDSpec,
)


class Step(NamedTuple):
    """What one step found."""

    grad_norm: float
    """Before clipping."""
    kfac_nu: float | None = None
    """The factor by which K-FAC's trust region shortened it; None under other optimizers."""


class Optimizer:
    """Steps one flat parameter, whose gradient is in `parameter.grad`.

    All weights live in one vector (`sweeper.rl.policy`), so that clipping is one dot product
    and a step is a handful of calls, whatever the network's depth.
    """

    def __init__(
        self,
        spec: OptimizerSpec,
        parameter: Tensor,
        *,
        max_grad_norm: float | None,
        blocks: FisherBlocks | None = None,
        matrices: Sequence[Matrices] = (),
    ) -> None:
        """`blocks` are views of `parameter.grad`, which only K-FAC needs; `matrices` are those
        of the layers below the heads, which only Muon does."""
        self._spec = spec
        self._parameter = parameter
        self._values = parameter.detach()
        self._max_grad_norm = max_grad_norm
        self._rule = _rule(spec, self._values, matrices)
        self.kfac: KFAC | None = None
        """To be shown a Fisher pass before each step; None under other optimizers."""
        if isinstance(spec, KFACSpec):
            assert blocks is not None
            assert parameter.grad is not None
            self.kfac = KFAC(spec, parameter.grad, blocks)
        self._rate = self.learning_rate(0.0)

    def learning_rate(self, progress: float) -> float:
        """The scheduled rate at `progress` in [0, 1]."""
        return self._spec.learning_rate * multiplier(self._spec.schedule, progress)

    def set_progress(self, progress: float) -> None:
        """Use the scheduled rate at `progress` from the next step on."""
        self._rate = self.learning_rate(progress)

    def step(self) -> Step:
        """Clip the gradient, precondition it, and step."""
        gradient = self._parameter.grad
        assert gradient is not None
        norm = math.sqrt(torch.dot(gradient, gradient).item())
        if self._max_grad_norm is not None and norm > self._max_grad_norm:
            gradient.mul_(self._max_grad_norm / norm)
        nu = None if self.kfac is None else self.kfac.precondition(self._rate)
        self._rule.step(self._values, gradient, self._rate * _undamped(self._spec))
        return Step(norm, nu)

    def state_dict(self) -> dict[str, Any]:
        """Everything that later steps depend on but the parameter itself, copied."""
        kfac = None if self.kfac is None else self.kfac.state_dict()
        return {"rule": deepcopy(self._rule.state), "kfac": kfac}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` of an optimizer of the same spec gave."""
        for name, value in state["rule"].items():
            self._rule.state[name].copy_(value)
        if self.kfac is not None:
            self.kfac.load_state_dict(state["kfac"])


def _undamped(spec: OptimizerSpec) -> float:
    """The share of the rate that a step adds to the velocity.

    Momentum sums steps up to 1 / (1 - momentum) of them; under K-FAC, where each is as long as
    the trust region allows, the sum must not leave it.
    """
    return 1.0 - spec.momentum if isinstance(spec, KFACSpec) else 1.0


def _rule(spec: OptimizerSpec, parameter: Tensor, matrices: Sequence[Matrices]) -> Rule:
    match spec:
        case AdamSpec():
            return Adam(parameter, beta1=spec.beta1, beta2=spec.beta2, eps=spec.eps)
        case AdamWSpec():
            return Adam(
                parameter,
                beta1=spec.beta1,
                beta2=spec.beta2,
                eps=spec.eps,
                weight_decay=spec.weight_decay,
            )
        case MuonSpec():
            return Muon(
                parameter,
                matrices,
                momentum=spec.momentum,
                beta1=spec.beta1,
                beta2=spec.beta2,
                eps=spec.eps,
                weight_decay=spec.weight_decay,
            )
        case RMSpropSpec():
            return RMSprop(parameter, alpha=spec.alpha, eps=spec.eps)
        case SGDSpec() | KFACSpec():
            return SGD(parameter, momentum=spec.momentum)
