"""The Fisher pass: gradients whose second moments are the Fisher matrix, shown to K-FAC.

The model's own distribution is asked, not the data: a sample's loss is::

    -log pi(a | s) + coef^(1/2) (V(s) - stop(V(s) + eps))^2 / 2,   a ~ pi(. | s), eps ~ N(0, 1)

with pi the policy as it is now (the rollout's actions are no longer drawn from it after the
first step on them). The critic stands for a normal of unit variance; its gradient at V(s) is
-coef^(1/2) eps, so its Fisher matrix is coef J^T J.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sweeper.optim.kfac import KFAC, ConvolutionSample, LayerSample
from sweeper.rl.bodies import LayerCall
from sweeper.rl.numpy_policy import NumpyPolicy
from sweeper.rl.policy import ActorCritic, Evaluator

F32 = NDArray[np.float32]


class FisherPass:
    """Draws the noise of a Fisher pass, runs it on the evaluator's path and shows it to K-FAC."""

    def __init__(self, kfac: KFAC, policy: ActorCritic, evaluator: Evaluator, *, seed: int) -> None:
        self._root_coef = math.sqrt(kfac.spec.value_fisher_coef)
        self._kfac = kfac
        self._policy = policy
        self._evaluator = evaluator
        # Not the stream of the collector, whose noise drew the rollout's own actions.
        self._rng = np.random.default_rng((seed, 1))

    def __call__(self, features: NDArray[Any]) -> None:
        """Observe a pass over `features` [B, *shape]. On the written-out path these must be of the
        network's last `forward`, which is used again."""
        noise = self._policy.distribution.noise(self._rng, (len(features),))
        eps = self._rng.standard_normal(len(features), dtype=np.float32)
        d_value = torch.from_numpy(-self._root_coef * eps).to(self._policy.flat.dtype).numpy()
        samples: Sequence[LayerSample | ConvolutionSample]
        if isinstance(self._evaluator, NumpyPolicy):
            samples = self._evaluator.fisher(noise, d_value)
        else:
            samples = autograd_fisher(self._policy, features, noise, d_value)
        self._kfac.observe(samples)


def autograd_fisher(
    policy: ActorCritic, features: NDArray[Any], noise: F32, d_value: F32
) -> list[LayerSample | ConvolutionSample]:
    """`NumpyPolicy.fisher` by autograd, at `features` [B, *shape]: the reference, and the way of
    convolutions."""
    tape: list[LayerCall] = []
    outputs, value, log_std = policy.forward(policy.tensor(features), tape=tape)
    drawn = policy.distribution.sample(
        outputs.detach().cpu().numpy(),
        None if log_std is None else log_std.detach().cpu().numpy(),
        noise,
    )
    log_prob = policy.distribution.log_prob(outputs, log_std, policy.tensor(drawn))
    # A sum over samples, which do not meet in the network: each gets its own loss's gradient.
    loss = -log_prob.sum() + torch.dot(value, torch.from_numpy(d_value).to(value))
    gradients = torch.autograd.grad(loss, [call.s for call in tape])
    dtype = policy.flat.dtype  # that of a call is another under autocast
    return [
        _sample(call, call.a.detach().to(dtype), g.to(dtype))
        for call, g in zip(tape, gradients, strict=True)
    ]


def _sample(call: LayerCall, a: Tensor, g: Tensor) -> LayerSample | ConvolutionSample:
    layer = call.convolution
    if layer is not None:
        return ConvolutionSample(a, g, layer.kernel, layer.stride, layer.padding)
    return LayerSample(a, g if g.dim() == 3 else g[None])
