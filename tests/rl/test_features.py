from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sweeper.core.errors import InputError
from sweeper.rl.features import Features


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
    ],
    ids=["box", "discrete", "multidiscrete", "multibinary", "dict", "tuple"],
)
def test_observations_become_flat_floats(
    space: gymnasium.Space[Any], observation: Any, expected: list[list[float]]
) -> None:
    encode = Features(space)
    out = np.full((2, encode.size), np.nan, np.float32)
    encode(observation, out)
    np.testing.assert_array_equal(out, np.array(expected, np.float32))


def test_images_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="convolutional"):
        Features(spaces.Box(0, 255, (84, 84, 4), np.uint8))


def test_other_spaces_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="Text observations"):
        Features(spaces.Text(3))
