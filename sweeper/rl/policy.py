"""`ActorCritic`: separate policy and value MLPs, every weight in one flat vector.

Notation: D observation features, H_l units of hidden layer l, K outputs of the policy head,
A action dimensions, B batch. The two networks have the same hidden shape, so each hidden layer
is one batched matrix product: weight [2, H_l, H_(l-1)], bias [2, H_l], index 0 the policy's
and 1 the value's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sweeper.optim.kfac import FisherBlocks, KnownFisher, LinearGradient
from sweeper.rl.distributions import Distribution
from sweeper.rl.spec import MLPSpec

F32 = NDArray[np.float32]


class Block(NamedTuple):
    """A named stretch of the flat vector."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)


def layout(n_features: int, distribution: Distribution, network: MLPSpec) -> tuple[Block, ...]:
    """The blocks of the flat vector, in order."""

    def blocks() -> Iterator[Block]:
        fan_in = n_features
        for i, width in enumerate(network.hidden):
            yield Block(f"hidden{i}.weight", (2, width, fan_in))
            yield Block(f"hidden{i}.bias", (2, width))
            fan_in = width
        yield Block("policy.weight", (distribution.n_outputs, fan_in))
        yield Block("policy.bias", (distribution.n_outputs,))
        yield Block("value.weight", (1, fan_in))
        yield Block("value.bias", (1,))
        if distribution.has_log_std:
            yield Block("log_std", (distribution.n_actions,))

    return tuple(blocks())


class Weights(NamedTuple):
    """The flat vector's blocks as tensors that share its memory."""

    hidden: tuple[tuple[Tensor, Tensor], ...]
    """(weight [2, H_l, H_(l-1)], bias [2, H_l]) a layer."""
    policy_weight: Tensor
    policy_bias: Tensor
    value_weight: Tensor
    value_bias: Tensor
    log_std: Tensor | None


class LayerCall(NamedTuple):
    """One pass through a linear layer, or through one of each network."""

    a: Tensor
    """[2, B, I] inputs; [1, B, I] where both networks, or only one, read them."""
    s: Tensor
    """[2, B, O] outputs before the nonlinearity; [B, O] of a head."""


class ActorCritic:
    """The network in torch; the reference that every faster path is tested against."""

    def __init__(
        self,
        n_features: int,
        distribution: Distribution,
        network: MLPSpec,
        *,
        seed: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.n_features = n_features
        self.distribution = distribution
        self.network = network
        self.blocks = layout(n_features, distribution, network)
        self.flat = torch.zeros(sum(b.size for b in self.blocks), dtype=dtype)
        self._initialize(torch.Generator().manual_seed(seed))
        self.flat.requires_grad_()
        self.flat.grad = torch.zeros_like(self.flat)

    def weights(self, flat: Tensor | None = None) -> Weights:
        """Views of the flat vector (or of another of its shape, such as its gradient)."""
        parts = torch.split(self.flat if flat is None else flat, [b.size for b in self.blocks])
        views = [part.view(block.shape) for part, block in zip(parts, self.blocks, strict=True)]
        n = 2 * len(self.network.hidden)
        hidden = tuple(zip(views[0:n:2], views[1:n:2], strict=True))
        log_std = views.pop() if self.distribution.has_log_std else None
        policy_weight, policy_bias, value_weight, value_bias = views[n:]
        return Weights(hidden, policy_weight, policy_bias, value_weight, value_bias, log_std)

    def fisher_blocks(self) -> FisherBlocks:
        """The gradient as K-FAC divides it: hidden layers, policy head, value head; log_std.

        log_std enters no layer: as of independent normals, its Fisher matrix is 2 I exactly.
        """
        gradient = self.weights(self.flat.grad)
        hidden = [
            LinearGradient(weight, bias, shares_input=i == 0)
            for i, (weight, bias) in enumerate(gradient.hidden)
        ]
        policy = LinearGradient(gradient.policy_weight[None], gradient.policy_bias[None])
        value = LinearGradient(gradient.value_weight[None], gradient.value_bias[None])
        log_std = () if gradient.log_std is None else (KnownFisher(gradient.log_std, 2.0),)
        return FisherBlocks([*hidden, policy, value], log_std)

    def forward(
        self, features: Tensor, *, tape: list[LayerCall] | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """features [B, D] -> policy outputs [B, K], values [B], log_std [A] or None.

        A `tape` is given each layer's input and output, in the order of `fisher_blocks`.
        """
        weights = self.weights()
        activation = torch.tanh if self.network.activation == "tanh" else torch.relu
        h = features.expand(2, *features.shape)
        calls: list[LayerCall] = []
        for weight, bias in weights.hidden:
            s = torch.baddbmm(bias[:, None], h, weight.transpose(1, 2))
            calls.append(LayerCall(h if calls else features[None], s))
            h = activation(s)
        outputs = torch.addmm(weights.policy_bias, h[0], weights.policy_weight.T)
        value = torch.addmm(weights.value_bias, h[1], weights.value_weight.T)
        if tape is not None:
            tape += [*calls, LayerCall(h[:1], outputs), LayerCall(h[1:], value)]
        return outputs, value[:, 0], weights.log_std

    def _initialize(self, generator: torch.Generator) -> None:
        """Orthogonal: gain sqrt 2 in hidden layers, 0.01 policy head, 1 value head; biases and
        log_std 0."""
        weights = self.weights()
        for weight, _ in weights.hidden:
            for net in weight:
                torch.nn.init.orthogonal_(net, math.sqrt(2.0), generator=generator)
        torch.nn.init.orthogonal_(weights.policy_weight, 0.01, generator=generator)
        torch.nn.init.orthogonal_(weights.value_weight, 1.0, generator=generator)


class Evaluator(Protocol):
    """How a network is run: `AutogradEvaluator` or `NumpyEvaluator`, the same to rounding."""

    def outputs(self, features: F32) -> tuple[F32, F32 | None]:
        """features [B, D] -> policy outputs [B, K] and log_std, for acting."""
        ...

    def evaluate(self, features: F32, action: NDArray[np.generic]) -> tuple[F32, F32]:
        """Log-probabilities [B] of `action` [B, A] and values [B]."""
        ...

    def values(self, features: F32) -> F32:
        """Values [B]."""
        ...


class AutogradEvaluator:
    """Runs an ActorCritic in torch."""

    def __init__(self, policy: ActorCritic) -> None:
        self._policy = policy

    @torch.inference_mode()
    def outputs(self, features: F32) -> tuple[F32, F32 | None]:
        """See Evaluator."""
        outputs, _, log_std = self._policy.forward(torch.from_numpy(features))
        return outputs.numpy(), None if log_std is None else log_std.numpy()

    @torch.inference_mode()
    def evaluate(self, features: F32, action: NDArray[np.generic]) -> tuple[F32, F32]:
        """See Evaluator."""
        outputs, value, log_std = self._policy.forward(torch.from_numpy(features))
        log_prob = self._policy.distribution.log_prob(outputs, log_std, torch.from_numpy(action))
        return log_prob.numpy(), value.numpy()

    @torch.inference_mode()
    def values(self, features: F32) -> F32:
        """See Evaluator."""
        value: F32 = self._policy.forward(torch.from_numpy(features))[1].numpy()
        return value
