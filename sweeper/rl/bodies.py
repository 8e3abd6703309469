"""Bodies: the convolutions between images and the fully connected layers.

Notation as in `policy`: n networks side by side, B images of [C, H, W]. A body is a list of
convolutions, whose weights lie in the policy's flat vector, and a function that puts them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv2d, max_pool2d

from sweeper.rl.images import ImageLayout
from sweeper.rl.spec import CNNSpec, ConvolutionalSpec, IMPALASpec

GAIN = math.sqrt(2.0)
"""Of orthogonal weights around a ReLU, which halves the mean square of what passes."""

Layer = Callable[[Tensor], Tensor]
"""[n, B, C, H, W] -> [n, B, O, H', W']"""


class Convolution(NamedTuple):
    """What there is to know of one but its weights."""

    channels: int
    filters: int
    kernel: int
    stride: int = 1
    padding: int = 0
    gain: float = GAIN
    """Of its initial weights."""


class LayerCall(NamedTuple):
    """One pass through a layer, side by side where there is one of each network."""

    a: Tensor
    """Inputs: [n, B, I], or images [n, B, C, H, W]; n = 1 where both networks, or only one,
    read them."""
    s: Tensor
    """Outputs before the nonlinearity: [n, B, O], or [n, B, O, H', W']; [B, O] of a head."""
    convolution: Convolution | None = None


class Body(NamedTuple):
    """A body for images of one size."""

    convolutions: tuple[Convolution, ...]
    """In the order in which they are called."""
    n_outputs: int
    """Numbers that it makes of an image."""
    connect: Callable[[Tensor, Sequence[Layer]], Tensor]
    """Images [n, B, C, H, W] and the convolutions as functions -> [n, B, C', H', W']."""

    def __call__(
        self, images: Tensor, weights: Sequence[tuple[Tensor, Tensor]], calls: list[LayerCall]
    ) -> Tensor:
        """Images [B, C, H, W] and (weight [n, O, C, k, k], bias [n, O]) of each convolution ->
        [n, B, n_outputs]; passes through them are added to `calls`, which is empty."""
        layers = [
            partial(_convolve, weight=weight, bias=bias, convolution=convolution, calls=calls)
            for (weight, bias), convolution in zip(weights, self.convolutions, strict=True)
        ]
        return self.connect(images.expand(len(weights[0][0]), *images.shape), layers).flatten(2)


def body_for(network: ConvolutionalSpec, image: ImageLayout) -> Body:
    """The body of a network. The image is as large as `images.least_size` asks for."""
    match network:
        case CNNSpec():
            return _plain(network, image)
        case IMPALASpec():
            return _residual(network, image)


def _plain(network: CNNSpec, image: ImageLayout) -> Body:
    channels, height, width = image.channels, image.height, image.width
    convolutions = []
    for layer in network.convolutions:
        convolutions.append(Convolution(channels, layer.filters, layer.kernel, layer.stride))
        channels = layer.filters
        height, width = ((s - layer.kernel) // layer.stride + 1 for s in (height, width))
    return Body(tuple(convolutions), channels * height * width, _in_a_row)


def _residual(network: IMPALASpec, image: ImageLayout) -> Body:
    """A stage reads what no ReLU has halved: gain 1. Each of R blocks adds to what it reads; at
    full gain as much as is there, or twice that after pooling, whose results are mostly positive,
    so that R blocks would multiply its mean square by 2^R or more. At R^(-1/2) of that gain, all
    together multiply it by less than (1 + 2 / R)^R < e^2."""
    channels, height, width = image.channels, image.height, image.width
    n_blocks = 2 * len(network.channels)
    convolutions: list[Convolution] = []
    for filters in network.channels:
        first = Convolution(channels, filters, 3, padding=1, gain=1.0)
        inner = Convolution(filters, filters, 3, padding=1)
        outer = inner._replace(gain=GAIN / math.sqrt(n_blocks))
        convolutions += [first, inner, outer, inner, outer]
        channels = filters
        height, width = -(-height // 2), -(-width // 2)
    return Body(tuple(convolutions), channels * height * width, _in_stages)


def _in_a_row(h: Tensor, layers: Sequence[Layer]) -> Tensor:
    for layer in layers:
        h = torch.relu(layer(h))
    return h


def _in_stages(h: Tensor, layers: Sequence[Layer]) -> Tensor:
    for at in range(0, len(layers), 5):
        first, *blocks = layers[at : at + 5]
        pooled = max_pool2d(first(h).flatten(0, 1), kernel_size=3, stride=2, padding=1)
        h = pooled.view(*h.shape[:2], *pooled.shape[1:])
        for inner, outer in (blocks[:2], blocks[2:]):
            h = h + outer(torch.relu(inner(torch.relu(h))))
    return torch.relu(h)


def _convolve(
    h: Tensor, *, weight: Tensor, bias: Tensor, convolution: Convolution, calls: list[LayerCall]
) -> Tensor:
    stride, padding = convolution.stride, convolution.padding
    nets = zip(h, weight, bias, strict=True)
    outputs = [conv2d(x, w, b, stride=stride, padding=padding) for x, w, b in nets]
    # Not a copy where there is but one.
    s = torch.stack(outputs) if len(outputs) > 1 else outputs[0][None]
    calls.append(LayerCall(h if calls else h[:1], s, convolution))
    return s
