"""Observations as the arrays that a network reads: flat vectors, images, or both."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol, TypeGuard

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sweeper.core.errors import InputError
from sweeper.envs.arrays import leaves
from sweeper.envs.vec_env import Observation
from sweeper.rl.images import ImageLayout, Inputs, image_layout, least_size
from sweeper.rl.spec import CNNSpec, ConvolutionalSpec, MLPSpec, NetworkSpec

F32 = NDArray[np.float32]


class Features(Protocol):
    """Writes batched observations of a space into rows of one shape and type."""

    inputs: Inputs
    """What the network finds in a row."""
    shape: tuple[int, ...]
    """Of one row."""
    dtype: np.dtype[Any]

    def __call__(self, observation: Observation, out: NDArray[Any]) -> None:
        """Encode observations [n, ...] into `out` [n, *shape]."""
        ...


def features_for(space: gymnasium.Space[Any], network: NetworkSpec) -> Features:
    """What the network reads of the space. Raises InputError, by name, where it cannot."""
    if isinstance(network, MLPSpec):
        return FlatFeatures(space)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return MixedFeatures(space, network)
    return ImageFeatures(space, network)


class FlatFeatures:
    """Rows of `shape` (D,), float32.

    Box and MultiBinary are flattened as they are, Discrete and MultiDiscrete become one-hot,
    Dict and Tuple are concatenated in the order of the space. Raises InputError for a space
    that has no such form.
    """

    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._leaves = list(leaves(space))
        ends = np.cumsum([0, *(_size(leaf.space) for leaf in self._leaves)]).tolist()
        self._slices = [slice(*between) for between in pairwise(ends)]
        self.inputs = Inputs(vector=ends[-1])
        self.shape: tuple[int, ...] = (ends[-1],)

    def __call__(self, observation: Observation, out: F32) -> None:
        """Encode observations [n, ...] into `out` [n, D]."""
        for leaf, columns in zip(self._leaves, self._slices, strict=True):
            part = observation[leaf.key] if isinstance(observation, dict) else observation
            _encode(leaf.space, part, out[:, columns])


class ImageFeatures:
    """Images as they are, for convolutions: `shape` [C, H, W] or [H, W, C]; [H, W] becomes
    [1, H, W].

    Bytes stay bytes: as float32 a rollout would take four times the memory. The network
    divides them by 255, and nothing else. Raises InputError for a space that is not of
    images, or of images too small for the network's convolutions.
    """

    def __init__(self, space: gymnasium.Space[Any], network: ConvolutionalSpec) -> None:
        shape: tuple[int, ...]
        match space:
            case spaces.Box(shape=(height, width)):
                shape = (1, height, width)
            case spaces.Box(shape=(_, _, _)):
                shape = space.shape
            case _:
                raise _without_images(space, network)
        image = image_layout(shape)
        _check_size(image, network, space)
        self.inputs = Inputs(image)
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(np.uint8 if space.dtype == np.uint8 else np.float32)

    def __call__(self, observation: Observation, out: NDArray[Any]) -> None:
        """Copy observations [n, ...] to `out` [n, *shape]."""
        assert not isinstance(observation, dict)
        np.copyto(out, observation.reshape(out.shape), casting="unsafe")


class MixedFeatures:
    """Images, and what is beside them, of a Dict or Tuple: bytes in three dimensions are images,
    all else is flattened as `FlatFeatures` has it.

    Rows are records of an `image` of bytes, in the layout of the first, and a `vector` of
    float32, at their end; of images alone, they are images. Images are put together by their
    channels. Raises InputError for a space without one, for images of several sizes, and as
    the other two do.
    """

    def __init__(self, space: gymnasium.Space[Any], network: ConvolutionalSpec) -> None:
        found = list(leaves(space))
        images = {
            leaf.key: image_layout(leaf.space.shape) for leaf in found if is_image(leaf.space)
        }
        if not images:
            raise _without_images(space, network)
        first = next(iter(images.values()))
        if len({(image.height, image.width) for image in images.values()}) > 1:
            sizes = (f"{key} is {image.height} x {image.width}" for key, image in images.items())
            raise InputError(
                f"{network.kind} takes images of one size from one observation: {', '.join(sizes)}"
            )
        ends = np.cumsum([0, *(image.channels for image in images.values())]).tolist()
        self._images = [
            (key, layout.channels_last, slice(*channels))
            for (key, layout), channels in zip(images.items(), pairwise(ends), strict=True)
        ]
        image = first._replace(channels=ends[-1])
        _check_size(image, network, space)
        rest = {leaf.key: leaf.space for leaf in found if leaf.key not in images}
        self._flat = FlatFeatures(spaces.Dict(rest))
        self._channels_last = first.channels_last
        self.inputs = Inputs(image, self._flat.inputs.vector)
        self.shape: tuple[int, ...] = () if self.inputs.vector else image.shape
        self.dtype: np.dtype[Any] = np.dtype(np.uint8)
        if self.inputs.vector:
            parts = [("image", np.uint8, image.shape), ("vector", np.float32, self._flat.shape)]
            self.dtype = np.dtype(parts, align=True)

    def __call__(self, observation: Observation, out: NDArray[Any]) -> None:
        """Encode observations [n, ...] into `out`: [n] records, or images [n, *shape]."""
        assert isinstance(observation, dict)
        images = out["image"] if self.inputs.vector else out
        images = _channels_first(images, self._channels_last)
        for key, channels_last, channels in self._images:
            images[:, channels] = _channels_first(observation[key], channels_last)
        if self.inputs.vector:
            self._flat(observation, out["vector"])


def _channels_first(images: NDArray[Any], channels_last: bool) -> NDArray[Any]:
    """A view [n, C, H, W]."""
    return np.moveaxis(images, -1, 1) if channels_last else images


def _without_images(space: gymnasium.Space[Any], network: ConvolutionalSpec) -> InputError:
    return InputError(
        f"{network.kind} takes images, a Box of [C, H, W], [H, W, C] or [H, W], or a Dict or "
        "Tuple in which some Box is of bytes in three dimensions; "
        f"observations are {space}, which `kind: mlp` takes"
    )


def _check_size(
    image: ImageLayout, network: ConvolutionalSpec, space: gymnasium.Space[Any]
) -> None:
    least = least_size(network)
    if min(image.height, image.width) < least:
        layers = "convolutions" if isinstance(network, CNNSpec) else "channels"
        raise InputError(
            f"{network.kind} with these `{layers}` takes images of {least} x {least} pixels or "
            f"more; observations are {image.height} x {image.width}, {space}"
        )


def is_image(space: gymnasium.Space[Any]) -> TypeGuard[spaces.Box]:
    """Whether observations are bytes in three dimensions."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def has_images(space: gymnasium.Space[Any]) -> bool:
    """Whether some of the observation is. Raises InputError as `leaves` does."""
    return any(is_image(leaf.space) for leaf in leaves(space))


def _size(space: gymnasium.Space[Any]) -> int:
    match space:
        case spaces.Discrete():
            return int(space.n)
        case spaces.MultiDiscrete():
            return int(space.nvec.sum())
        case _:
            if is_image(space):
                raise InputError(
                    f"mlp takes flat observations; images, {space}, need `kind: cnn` or `impala`"
                )
            return int(np.prod(space.shape or ()))


def _encode(space: gymnasium.Space[Any], observation: NDArray[Any], out: F32) -> None:
    match space:
        case spaces.Discrete():
            _one_hot(observation[:, None] - space.start, np.array([space.n]), out)
        case spaces.MultiDiscrete():
            start = np.asarray(space.start).ravel()
            _one_hot(observation.reshape(len(out), -1) - start, space.nvec.ravel(), out)
        case _:
            np.copyto(out, observation.reshape(len(out), -1), casting="unsafe")


def _one_hot(values: NDArray[Any], sizes: NDArray[Any], out: F32) -> None:
    """`values` [n, k], each from 0 to its entry of `sizes` [k] - 1."""
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    out[:] = 0.0
    np.put_along_axis(out, values.astype(np.int64) + offsets, 1.0, axis=1)
