"""Where an image's channels are, and what convolutions leave of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sweeper.rl.spec import ConvolutionSpec


class ImageLayout(NamedTuple):
    """How the numbers of an image are arranged."""

    channels: int
    height: int
    width: int
    channels_last: bool


def image_layout(shape: tuple[int, ...]) -> ImageLayout:
    """Of [C, H, W], as stacked frames come, or [H, W, C], as colors do: the channels are the
    shorter of the first and the last axis, the first where they are equal."""
    first, middle, last = shape
    if first <= last:
        return ImageLayout(first, middle, last, channels_last=False)
    return ImageLayout(last, first, middle, channels_last=True)


def least_size(convolutions: Sequence[ConvolutionSpec]) -> int:
    """Height and width, in pixels, below which some kernel does not fit."""
    size = 1
    for layer in reversed(convolutions):
        size = (size - 1) * layer.stride + layer.kernel
    return size


def convolved_size(size: int, convolutions: Sequence[ConvolutionSpec]) -> int:
    """What a height or width of `size` pixels has become after all layers."""
    for layer in convolutions:
        size = (size - layer.kernel) // layer.stride + 1
    return size
