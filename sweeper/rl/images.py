"""Where an image's channels are, and how small images may be."""

from __future__ import annotations

from typing import NamedTuple

from sweeper.rl.spec import ConvolutionalSpec, IMPALASpec


class ImageLayout(NamedTuple):
    """How the numbers of an image are arranged."""

    channels: int
    height: int
    width: int
    channels_last: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """[C, H, W] or [H, W, C]."""
        channels, height, width, channels_last = self
        return (height, width, channels) if channels_last else (channels, height, width)


class Inputs(NamedTuple):
    """What a network reads of one observation: an image, a vector, or both."""

    image: ImageLayout | None = None
    vector: int = 0
    """Numbers in it."""


def image_layout(shape: tuple[int, ...]) -> ImageLayout:
    """Of [C, H, W], as stacked frames come, or [H, W, C], as colors do: the channels are the
    shorter of the first and the last axis, the first where they are equal."""
    first, middle, last = shape
    if first <= last:
        return ImageLayout(first, middle, last)
    return ImageLayout(last, first, middle, channels_last=True)


def least_size(network: ConvolutionalSpec) -> int:
    """Height and width, in pixels, below which some kernel does not fit, or some stage of a
    residual network has but one pixel left to pool."""
    if isinstance(network, IMPALASpec):
        return (1 << (len(network.channels) - 1)) + 1
    size = 1
    for layer in reversed(network.convolutions):
        size = (size - 1) * layer.stride + layer.kernel
    return size
