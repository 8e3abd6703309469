"""`ActorCritic`: policy and value network, every weight in one flat vector.

Notation: B batch, D numbers of a flat observation or beside an image, [C, H, W] an image, H_l units
of hidden layer l, K outputs of the policy head, A action dimensions; n networks below the heads: 1
where policy and value share them, else 2, index 0 the policy's and 1 the value's. The networks
have the same shape, so each hidden layer is one batched matrix product: weight [n, H_l, H_(l-1)],
bias [n, H_l].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sweeper.optim.kfac import FisherBlocks, KnownFisher, LinearGradient
from sweeper.optim.muon import Matrices
from sweeper.rl.bodies import GAIN, Body, LayerCall, body_for
from sweeper.rl.device import tensor_on
from sweeper.rl.distributions import Distribution
from sweeper.rl.images import Inputs
from sweeper.rl.spec import MLPSpec, NetworkSpec

F32 = NDArray[np.float32]
CPU = torch.device("cpu")
CHUNK = 512
"""Rows evaluated at once after a rollout: bounds what the activations of images take."""


class Block(NamedTuple):
    """A named stretch of the flat vector."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)


def layout(
    inputs: Inputs, distribution: Distribution, network: NetworkSpec, body: Body | None
) -> tuple[Block, ...]:
    """The blocks of the flat vector, in order."""
    n = 1 if network.shared else 2

    def blocks() -> Iterator[Block]:
        fan_in = inputs.vector
        if body is not None:
            for i, layer in enumerate(body.convolutions):
                kernel = (layer.kernel, layer.kernel)
                yield Block(f"convolution{i}.weight", (n, layer.filters, layer.channels, *kernel))
                yield Block(f"convolution{i}.bias", (n, layer.filters))
            fan_in += body.n_outputs
        for i, units in enumerate(network.hidden):
            yield Block(f"hidden{i}.weight", (n, units, fan_in))
            yield Block(f"hidden{i}.bias", (n, units))
            fan_in = units
        yield Block("policy.weight", (distribution.n_outputs, fan_in))
        yield Block("policy.bias", (distribution.n_outputs,))
        yield Block("value.weight", (1, fan_in))
        yield Block("value.bias", (1,))
        if distribution.has_log_std:
            yield Block("log_std", (distribution.n_actions,))

    return tuple(blocks())


class Weights(NamedTuple):
    """The flat vector's blocks as tensors that share its memory."""

    convolutions: tuple[tuple[Tensor, Tensor], ...]
    """(weight [n, O, C, kernel, kernel], bias [n, O]) a layer; none in an MLP."""
    hidden: tuple[tuple[Tensor, Tensor], ...]
    """(weight [n, H_l, H_(l-1)], bias [n, H_l]) a layer."""
    policy_weight: Tensor
    policy_bias: Tensor
    value_weight: Tensor
    value_bias: Tensor
    log_std: Tensor | None

    @property
    def below(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """All layers below the heads, first to last."""
        return (*self.convolutions, *self.hidden)


class ActorCritic:
    """The network in torch; the reference that every faster path is tested against."""

    def __init__(
        self,
        inputs: Inputs,
        distribution: Distribution,
        network: NetworkSpec,
        *,
        seed: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device = CPU,
    ) -> None:
        """`inputs` fit the network (`features_for`). The same seed gives the same weights on
        every device."""
        self.inputs = inputs
        self.distribution = distribution
        self.network = network
        self._body: Body | None = None
        if not isinstance(network, MLPSpec):
            assert inputs.image is not None
            self._body = body_for(network, inputs.image)
        self.blocks = layout(inputs, distribution, network, self._body)
        self.flat = torch.zeros(sum(b.size for b in self.blocks), dtype=dtype)
        self._initialize(torch.Generator().manual_seed(seed))
        self.flat = self.flat.to(device).requires_grad_()
        self.flat.grad = torch.zeros_like(self.flat)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """An array where the network is; of records, their bytes in rows."""
        if array.dtype.names:
            array = array.view(np.uint8).reshape(len(array), -1)
        return tensor_on(self.flat.device, array)

    def synchronize(self) -> None:
        """Wait for the device, so that what it did is not timed as something else."""
        if self.flat.is_cuda:
            torch.cuda.synchronize()

    def weights(self, flat: Tensor | None = None) -> Weights:
        """Views of the flat vector (or of another of its shape, such as its gradient)."""
        parts = torch.split(self.flat if flat is None else flat, [b.size for b in self.blocks])
        views = [part.view(block.shape) for part, block in zip(parts, self.blocks, strict=True)]
        log_std = views.pop() if self.distribution.has_log_std else None
        *below, policy_weight, policy_bias, value_weight, value_bias = views
        layers = tuple(zip(below[::2], below[1::2], strict=True))
        n = 0 if self._body is None else len(self._body.convolutions)
        return Weights(
            layers[:n], layers[n:], policy_weight, policy_bias, value_weight, value_bias, log_std
        )

    def fisher_blocks(self) -> FisherBlocks:
        """The gradient as K-FAC divides it: convolutions, hidden layers, policy head, value head;
        log_std.

        A convolution's weight is that of the linear layer which it is on each patch. log_std
        enters no layer: as of independent normals, its Fisher matrix is 2 I exactly.
        """
        gradient = self.weights(self.flat.grad)
        below = [
            LinearGradient(weight.flatten(2), bias, shares_input=i == 0)
            for i, (weight, bias) in enumerate(gradient.below)
        ]
        policy = LinearGradient(gradient.policy_weight[None], gradient.policy_bias[None])
        value = LinearGradient(gradient.value_weight[None], gradient.value_bias[None])
        log_std = () if gradient.log_std is None else (KnownFisher(gradient.log_std, 2.0),)
        return FisherBlocks([*below, policy, value], log_std)

    def hidden_matrices(self) -> list[Matrices]:
        """The weights below the heads as stretches of the flat vector; a convolution's as the
        matrix that it is on each patch."""
        starts = accumulate((block.size for block in self.blocks), initial=0)
        n = len(self.weights().below)
        return [
            Matrices(start, (block.shape[0], block.shape[1], math.prod(block.shape[2:])))
            for start, block in list(zip(starts, self.blocks, strict=False))[: 2 * n : 2]
        ]

    def forward(
        self, features: Tensor, *, tape: list[LayerCall] | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Rows of features [B, ...] -> policy outputs [B, K], values [B], log_std [A] or None.

        A `tape` is given each layer's input and output, in the order of `fisher_blocks`.
        """
        is_bf16 = self.network.precision == "bf16"
        with torch.autocast(self.flat.device.type, torch.bfloat16, enabled=is_bf16):
            outputs, value, log_std = self._forward(features, tape)
        return outputs.to(self.flat.dtype), value.to(self.flat.dtype), log_std

    def _forward(
        self, features: Tensor, tape: list[LayerCall] | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        weights = self.weights()
        calls: list[LayerCall] = []
        if self._body is None:
            h = features.expand(1 if self.network.shared else 2, *features.shape)
        else:
            images, vector = self._parts(features)
            h = self._body(images, weights.convolutions, calls)
            if vector is not None:
                h = torch.cat((h, vector.expand(len(h), *vector.shape)), 2)
        for weight, bias in weights.hidden:
            s = torch.baddbmm(bias[:, None], h, weight.transpose(1, 2))
            calls.append(LayerCall(h if calls else h[:1], s))
            h = self._activation(s)
        outputs = torch.addmm(weights.policy_bias, h[0], weights.policy_weight.T)
        value = torch.addmm(weights.value_bias, h[-1], weights.value_weight.T)
        if tape is not None:
            tape += [*calls, LayerCall(h[:1], outputs), LayerCall(h[-1:], value)]
        return outputs, value[:, 0], weights.log_std

    def _parts(self, features: Tensor) -> tuple[Tensor, Tensor | None]:
        """Images [B, C, H, W], bytes from 0 to 1, and the vectors [B, D] beside them: rows of
        both are bytes, the last of which are a vector's float32."""
        image, n_numbers = self.inputs
        assert image is not None
        vector = None
        if n_numbers:
            at = features.shape[1] - 4 * n_numbers
            vector = features[:, at:].view(torch.float32).to(self.flat.dtype)
            features = features[:, : math.prod(image.shape)].view(-1, *image.shape)
        images = features.movedim(-1, 1) if image.channels_last else features
        images = images.to(self.flat.dtype)
        return images / 255.0 if features.dtype == torch.uint8 else images, vector

    def _activation(self, s: Tensor) -> Tensor:
        is_tanh = isinstance(self.network, MLPSpec) and self.network.activation == "tanh"
        return torch.tanh(s) if is_tanh else torch.relu(s)

    def _initialize(self, generator: torch.Generator) -> None:
        """Orthogonal: gain sqrt 2 below the heads (of convolutions, their own), 0.01 policy head,
        1 value head; biases and log_std 0."""
        weights = self.weights()
        convolutions = () if self._body is None else self._body.convolutions
        gains = [layer.gain for layer in convolutions] + [GAIN] * len(weights.hidden)
        for (weight, _), gain in zip(weights.below, gains, strict=True):
            for net in weight:
                torch.nn.init.orthogonal_(net, gain, generator=generator)
        torch.nn.init.orthogonal_(weights.policy_weight, 0.01, generator=generator)
        torch.nn.init.orthogonal_(weights.value_weight, 1.0, generator=generator)


class Evaluator(Protocol):
    """How a network is run: `AutogradEvaluator` or `NumpyPolicy`, the same to rounding."""

    def outputs(self, features: NDArray[Any]) -> tuple[F32, F32 | None]:
        """features [B, *shape] -> policy outputs [B, K] and log_std, for acting."""
        ...

    def evaluate(self, features: NDArray[Any], action: NDArray[np.generic]) -> tuple[F32, F32]:
        """Log-probabilities [B] of `action` [B, A] and values [B]."""
        ...

    def values(self, features: NDArray[Any]) -> F32:
        """Values [B]."""
        ...


class AutogradEvaluator:
    """Runs an ActorCritic in torch."""

    def __init__(self, policy: ActorCritic) -> None:
        self._policy = policy

    @torch.inference_mode()
    def outputs(self, features: NDArray[Any]) -> tuple[F32, F32 | None]:
        """See Evaluator."""
        outputs, _, log_std = self._policy.forward(self._policy.tensor(features))
        return outputs.cpu().numpy(), None if log_std is None else log_std.cpu().numpy()

    @torch.inference_mode()
    def evaluate(self, features: NDArray[Any], action: NDArray[np.generic]) -> tuple[F32, F32]:
        """See Evaluator."""
        policy, log_probs, values = self._policy, [], []
        for rows in _chunks(len(features)):
            outputs, value, log_std = policy.forward(policy.tensor(features[rows]))
            drawn = policy.tensor(action[rows])
            log_probs.append(policy.distribution.log_prob(outputs, log_std, drawn))
            values.append(value)
        return torch.cat(log_probs).cpu().numpy(), torch.cat(values).cpu().numpy()

    @torch.inference_mode()
    def values(self, features: NDArray[Any]) -> F32:
        """See Evaluator."""
        chunks = (self._policy.tensor(features[rows]) for rows in _chunks(len(features)))
        values: F32 = torch.cat([self._policy.forward(chunk)[1] for chunk in chunks]).cpu().numpy()
        return values


def _chunks(n: int) -> Iterator[slice]:
    return (slice(at, at + CHUNK) for at in range(0, n, CHUNK))
