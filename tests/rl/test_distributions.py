"""Distributions against torch's own, and samples against their probabilities."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributions as reference

from sweeper.core.errors import InputError
from sweeper.rl.distributions import distribution_for

N = 40_000


def test_gaussian_equals_torch() -> None:
    ours = distribution_for(spaces.Box(-1, 1, (3,)))
    mean, action = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    log_std = torch.tensor([-1.0, 0.0, 0.5])
    theirs = reference.Independent(reference.Normal(mean, log_std.exp()), 1)
    torch.testing.assert_close(ours.log_prob(mean, log_std, action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(mean, log_std), theirs.entropy())


def test_categoricals_equal_torch() -> None:
    ours = distribution_for(spaces.MultiDiscrete([2, 3]))
    logits = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    action = torch.tensor([[0, 2], [1, 0], [1, 1], [0, 0], [1, 2]])
    first = reference.Categorical(logits=logits[:, :2])
    second = reference.Categorical(logits=logits[:, 2:])
    torch.testing.assert_close(
        ours.log_prob(logits, None, action),
        first.log_prob(action[:, 0]) + second.log_prob(action[:, 1]),
    )
    torch.testing.assert_close(ours.entropy(logits, None), first.entropy() + second.entropy())


def test_bernoulli_equals_torch() -> None:
    ours = distribution_for(spaces.MultiBinary(3))
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    action = (logits > 0.3).to(torch.int8)
    theirs = reference.Independent(reference.Bernoulli(logits=logits), 1)
    torch.testing.assert_close(ours.log_prob(logits, None, action), theirs.log_prob(action.float()))
    torch.testing.assert_close(ours.entropy(logits, None), theirs.entropy())


def draw(space: gymnasium.Space[Any], outputs: list[float], log_std: Any = None) -> np.ndarray:
    ours = distribution_for(space)
    rows = np.tile(np.array(outputs, np.float32), (N, 1))
    action: np.ndarray = ours.sample(rows, log_std, ours.noise(np.random.default_rng(1), (N,)))
    return action


def test_gumbel_noise_draws_from_the_softmax() -> None:
    action = draw(spaces.Discrete(3), [0.0, 1.0, -1.0])
    shares = np.bincount(action[:, 0], minlength=3) / N
    np.testing.assert_allclose(shares, np.exp([0, 1, -1]) / np.exp([0, 1, -1]).sum(), atol=0.01)


def test_logistic_noise_draws_coins() -> None:
    action = draw(spaces.MultiBinary(2), [0.0, 2.0])
    np.testing.assert_allclose(action.mean(0), [0.5, 1 / (1 + np.exp(-2))], atol=0.01)


def test_normal_noise_has_the_deviation() -> None:
    action = draw(spaces.Box(-1, 1, (2,)), [0.5, -3.0], np.log(np.array([1.0, 0.1], np.float32)))
    np.testing.assert_allclose(action.mean(0), [0.5, -3.0], atol=0.02)
    np.testing.assert_allclose(action.std(0), [1.0, 0.1], rtol=0.02)
    assert np.abs(action[:, 0]).max() > 1.0  # unclipped: the environment clips


def test_without_noise_the_mode_is_taken() -> None:
    ours = distribution_for(spaces.MultiDiscrete([2, 3]))
    action = ours.sample(np.array([[0.1, 0.2, 5.0, 0.0, 1.0]], np.float32), None, None)
    assert action.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("space", "action", "expected"),
    [
        (spaces.Discrete(3, start=5), [[0], [2]], [5, 7]),
        (spaces.MultiDiscrete([[2, 2], [2, 2]]), [[0, 1, 1, 0]], [[[0, 1], [1, 0]]]),
        (spaces.Box(-1, 1, (2, 1)), [[0.5, 2.0]], [[[0.5], [2.0]]]),
        (spaces.MultiBinary((1, 2)), [[1, 0]], [[[1, 0]]]),
    ],
    ids=["start", "multidiscrete", "box", "multibinary"],
)
def test_actions_reach_the_environment_in_its_shape(
    space: gymnasium.Space[Any], action: list[Any], expected: list[Any]
) -> None:
    shaped = distribution_for(space).to_env(np.array(action))
    assert shaped.tolist() == expected


def test_an_unsupported_action_space_is_named() -> None:
    with pytest.raises(InputError, match="Text actions are not supported"):
        distribution_for(spaces.Text(3))
