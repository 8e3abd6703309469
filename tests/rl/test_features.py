from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sweeper.core.errors import InputError
from sweeper.rl.features import FlatFeatures, ImageFeatures, MixedFeatures, features_for
from sweeper.rl.spec import CNNSpec, ConvolutionSpec, IMPALASpec

CNN = CNNSpec(kind="cnn")
IMPALA = IMPALASpec(kind="impala")


@pytest.mark.parametrize(
    ("space", "observation", "expected"),
    [
        (spaces.Box(-9, 9, (2, 2)), np.arange(8.0).reshape(2, 2, 2), [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (spaces.Discrete(3, start=1), np.array([1, 3]), [[1, 0, 0], [0, 0, 1]]),
        (
            spaces.MultiDiscrete([2, 3]),
            np.array([[1, 0], [0, 2]]),
            [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]],
        ),
        (spaces.MultiBinary(2), np.array([[1, 0], [0, 1]]), [[1, 0], [0, 1]]),
        (
            spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (1,))}),
            {"a": np.array([1, 0]), "b": np.array([[0.5], [0.25]])},
            [[0, 1, 0.5], [1, 0, 0.25]],
        ),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]),
            {"0": np.array([0, 1]), "1": np.array([1, 1])},
            [[1, 0, 0, 1], [0, 1, 0, 1]],
        ),
        (
            spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)}), "c": spaces.Discrete(2)}),
            {"a.b": np.array([0, 1]), "c": np.array([1, 1])},
            [[1, 0, 0, 1], [0, 1, 0, 1]],
        ),
    ],
    ids=["box", "discrete", "multidiscrete", "multibinary", "dict", "tuple", "nested"],
)
def test_observations_become_flat_floats(
    space: gymnasium.Space[Any], observation: Any, expected: list[list[float]]
) -> None:
    encode = FlatFeatures(space)
    out = np.full((2, *encode.shape), np.nan, np.float32)
    encode(observation, out)
    np.testing.assert_array_equal(out, np.array(expected, np.float32))


def test_an_mlp_refuses_images_and_says_what_takes_them() -> None:
    image = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    for space in (image, spaces.Dict({"camera": image, "speed": spaces.Box(0, 1)})):
        with pytest.raises(InputError, match=r"mlp takes flat observations.*need `kind: cnn`"):
            FlatFeatures(space)


def test_other_spaces_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="observation space Text"):
        FlatFeatures(spaces.Text(3))


@pytest.mark.parametrize("shape", [(4, 84, 84), (96, 96, 3), (84, 84)])
def test_bytes_of_images_stay_bytes_in_their_layout(shape: tuple[int, ...]) -> None:
    space = spaces.Box(0, 255, shape, np.uint8)
    encode = ImageFeatures(space, CNN)
    assert encode.shape == (shape if len(shape) == 3 else (1, *shape))
    images = np.random.default_rng(0).integers(256, size=(2, *shape), dtype=np.uint8)
    out = np.zeros((2, *encode.shape), encode.dtype)
    encode(images, out)
    assert out.dtype == np.uint8
    np.testing.assert_array_equal(out.reshape(images.shape), images)


def test_images_of_real_numbers_become_float32() -> None:
    assert ImageFeatures(spaces.Box(-1, 1, (40, 40, 3), np.float64), CNN).dtype == np.float32


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (4,)),
        spaces.Discrete(3),
        spaces.Box(0, 255, (4, 84, 84, 3), np.uint8),
        spaces.Dict({"camera": spaces.Box(0, 255, (84, 84, 3), np.uint8)}),
    ],
)
@pytest.mark.parametrize("network", [CNN, IMPALA], ids=lambda network: network.kind)
def test_convolutions_refuse_what_is_no_image(
    space: gymnasium.Space[Any], network: CNNSpec | IMPALASpec
) -> None:
    said = rf"{network.kind} takes images, a Box of \[C, H, W\]"
    with pytest.raises(InputError, match=said):
        ImageFeatures(space, network)


@pytest.mark.parametrize("shape", [(3, 36, 35), (35, 36, 3)])
def test_images_too_small_for_the_kernels_are_refused(shape: tuple[int, ...]) -> None:
    space = spaces.Box(0, 255, shape, np.uint8)
    with pytest.raises(InputError, match=r"36 x 36 pixels .*; observations are 3[56] x 3[56]"):
        ImageFeatures(space, CNN)
    small = CNNSpec(kind="cnn", convolutions=(ConvolutionSpec(filters=8, kernel=35),))
    assert ImageFeatures(space, small).shape == shape


def test_images_with_nothing_to_pool_are_refused() -> None:
    small = spaces.Box(0, 255, (8, 4, 3), np.uint8)
    with pytest.raises(
        InputError, match=r"impala with these `channels` takes images of 5 x 5 pixels .* 8 x 4, "
    ):
        ImageFeatures(small, IMPALA)
    two_stages = IMPALASpec(kind="impala", channels=(8, 8))
    assert ImageFeatures(small, two_stages).shape == small.shape


COLORS, GRAY = spaces.Box(0, 255, (9, 8, 3), np.uint8), spaces.Box(0, 255, (2, 9, 8), np.uint8)
KERNEL = CNNSpec(kind="cnn", convolutions=(ConvolutionSpec(filters=8, kernel=8),))


def seen(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(256, size=(2, *shape), dtype=np.uint8) for shape in shapes]


def test_images_lie_by_their_channels_in_a_record_and_the_rest_in_a_vector() -> None:
    space = spaces.Dict(
        {"a": spaces.Discrete(2), "b": COLORS, "c": GRAY, "d": spaces.Box(-1, 1, (2,))}
    )
    encode = features_for(space, KERNEL)
    colors, gray = seen(COLORS.shape, GRAY.shape)
    out = np.zeros((2, *encode.shape), encode.dtype)
    observation = {"b": colors, "c": gray, "a": np.array([1, 0]), "d": np.full((2, 2), 0.5)}
    encode(observation, out)
    assert out.dtype["image"].base == np.uint8
    image = encode.inputs.image
    assert image is not None
    assert (image.shape, encode.inputs.vector) == ((9, 8, 5), 4)
    np.testing.assert_array_equal(out["image"][..., :3], colors)
    np.testing.assert_array_equal(out["image"][..., 3:], gray.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(out["vector"], [[0, 1, 0.5, 0.5], [1, 0, 0.5, 0.5]])


def test_images_alone_in_a_tuple_are_an_image() -> None:
    encode = MixedFeatures(spaces.Tuple([GRAY, COLORS]), KERNEL)
    assert (encode.shape, encode.dtype, encode.inputs.vector) == ((5, 9, 8), np.uint8, 0)
    gray, colors = seen(GRAY.shape, COLORS.shape)
    out = np.zeros((2, *encode.shape), encode.dtype)
    encode({"0": gray, "1": colors}, out)
    np.testing.assert_array_equal(out[:, :2], gray)
    np.testing.assert_array_equal(out[:, 2:], colors.transpose(0, 3, 1, 2))


def test_images_of_several_sizes_are_refused_by_their_keys() -> None:
    space = spaces.Dict({"eye": COLORS, "map": spaces.Box(0, 255, (16, 16, 1), np.uint8)})
    said = r"cnn takes images of one size from one observation: eye is 9 x 8, map is 16 x 16"
    with pytest.raises(InputError, match=said):
        features_for(space, KERNEL)


def test_a_dict_without_images_or_with_small_ones_is_refused_as_a_box_is() -> None:
    flat = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (9, 8, 3))})
    with pytest.raises(InputError, match=r"cnn takes images, .* which `kind: mlp` takes"):
        features_for(flat, KERNEL)
    with pytest.raises(InputError, match=r"takes images of 36 x 36 pixels .* are 9 x 8, Dict"):
        features_for(spaces.Dict({"a": spaces.Discrete(2), "b": COLORS}), CNN)
