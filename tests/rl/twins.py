"""The networks of an ActorCritic as modules of `torch.nn`: the oracle of what it computes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sweeper.rl.policy import ActorCritic
from sweeper.rl.spec import CNNSpec, IMPALASpec


class Residual(nn.Module):
    def __init__(self, inner: nn.Conv2d, outer: nn.Conv2d) -> None:
        super().__init__()
        self.inner, self.outer = inner, outer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(torch.relu(self.inner(torch.relu(x))))


class Twin(nn.Module):
    def __init__(self, below: nn.Sequential, above: nn.Sequential) -> None:
        super().__init__()
        self.below, self.above = below, above

    def forward(self, images: Tensor, vector: Tensor | None = None) -> Tensor:
        h = self.below(images)
        return self.above(h if vector is None else torch.cat((h, vector), 1))


def twin(policy: ActorCritic, net: int, head: tuple[Tensor, Tensor]) -> Twin:
    """The network `net` below a head (weight, bias), on images [B, C, H, W] from 0 to 1, and
    vectors [B, D] if there are any. It holds the policy's own weights; its parameters are in the
    order of the policy's."""
    weights, network = policy.weights(), policy.network
    convolutions = iter(weights.convolutions)

    def convolution(stride: int, padding: int) -> nn.Conv2d:
        weight, bias = (part[net].detach() for part in next(convolutions))
        filters, channels, kernel, _ = weight.shape
        layer = nn.Conv2d(channels, filters, kernel, stride, padding)
        layer.weight.data, layer.bias.data = weight, bias
        return layer

    below, above = list[nn.Module](), list[nn.Module]()
    if isinstance(network, CNNSpec):
        for spec in network.convolutions:
            below += [convolution(spec.stride, 0), nn.ReLU()]
    else:
        assert isinstance(network, IMPALASpec)
        for _ in network.channels:
            below += [convolution(1, 1), nn.MaxPool2d(3, stride=2, padding=1)]
            below += [Residual(convolution(1, 1), convolution(1, 1)) for _ in range(2)]
        below.append(nn.ReLU())
    for weight, bias in [*((w[net], b[net]) for w, b in weights.hidden), head]:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight.data, linear.bias.data = weight.detach(), bias.detach()
        above += [linear, nn.ReLU()]
    return Twin(nn.Sequential(*below, nn.Flatten()), nn.Sequential(*above[:-1]))


def heads(policy: ActorCritic) -> list[tuple[Tensor, Tensor]]:
    """(weight, bias) of the policy head and of the value head."""
    weights = policy.weights()
    return [
        (weights.policy_weight, weights.policy_bias),
        (weights.value_weight, weights.value_bias),
    ]
