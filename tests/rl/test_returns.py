"""Generalized advantage estimation against numbers worked by hand, and against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from sweeper.rl.returns import generalized_advantage


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def flags(*values: int) -> np.ndarray:
    return np.array(values, np.bool_)[:, None]


def test_three_steps_by_hand() -> None:
    # gamma 0.5, lambda 0.5: delta = (1 + 1 - 1, 2 + 1.5 - 2, 3 + 2 - 3) = (1, 1.5, 2)
    # A2 = 2, A1 = 1.5 + 0.25 * 2 = 2, A0 = 1 + 0.25 * 2 = 1.5
    advantage = generalized_advantage(
        column(1, 2, 3),
        column(1, 2, 3),
        next_value=column(2, 3, 4),
        terminated=flags(0, 0, 0),
        truncated=flags(0, 0, 0),
        gamma=0.5,
        gae_lambda=0.5,
    )
    np.testing.assert_allclose(advantage, column(1.5, 2, 2))


def test_termination_drops_the_next_value_and_cuts_the_trace() -> None:
    # delta = (1 - 1, 3 + 2 - 3) = (0, 2): nothing of what follows reaches step 0
    advantage = generalized_advantage(
        column(1, 3),
        column(1, 3),
        next_value=column(2, 4),
        terminated=flags(1, 0),
        truncated=flags(0, 0),
        gamma=0.5,
        gae_lambda=0.5,
    )
    np.testing.assert_allclose(advantage, column(0, 2))


def test_truncation_keeps_the_next_value_and_cuts_the_trace() -> None:
    # delta = (1 + 0.5 * 2 - 1, 2) = (1, 2)
    advantage = generalized_advantage(
        column(1, 3),
        column(1, 3),
        next_value=column(2, 4),
        terminated=flags(0, 0),
        truncated=flags(1, 0),
        gamma=0.5,
        gae_lambda=0.5,
    )
    np.testing.assert_allclose(advantage, column(1, 2))


def test_both_at_once_is_a_termination() -> None:
    advantage = generalized_advantage(
        column(1),
        column(1),
        next_value=column(100),
        terminated=flags(1),
        truncated=flags(1),
        gamma=0.5,
        gae_lambda=0.5,
    )
    np.testing.assert_allclose(advantage, column(0))


@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_equals_the_sum_that_defines_it(gae_lambda: float) -> None:
    rng = np.random.default_rng(0)
    shape = (12, 3)
    reward, value, next_value = rng.standard_normal((3, *shape)).astype(np.float32)
    terminated, truncated = rng.random((2, *shape)) < 0.2
    gamma = 0.9
    delta = reward + gamma * np.where(terminated, 0, next_value) - value
    expected = np.zeros(shape)
    for n in range(shape[1]):
        for t in range(shape[0]):
            weight = 1.0
            for k in range(t, shape[0]):
                expected[t, n] += weight * delta[k, n]
                if terminated[k, n] or truncated[k, n]:
                    break
                weight *= gamma * gae_lambda
    advantage = generalized_advantage(
        reward,
        value,
        next_value=next_value,
        terminated=terminated,
        truncated=truncated,
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    np.testing.assert_allclose(advantage, expected, rtol=1e-4, atol=1e-5)
