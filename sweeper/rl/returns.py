"""Generalized advantage estimation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


def generalized_advantage(
    reward: F32,
    value: F32,
    *,
    next_value: F32,
    terminated: Bool,
    truncated: Bool,
    gamma: float,
    gae_lambda: float,
) -> F32:
    r"""Advantages of a rollout (Schulman et al. 2016, eq. 16).

    ::

        delta[t] = reward[t] + gamma * (1 - terminated[t]) * next_value[t] - value[t]
        A[t]     = delta[t] + gamma * lambda * (1 - ended[t]) * A[t + 1]

    with ended = terminated or truncated: both cut the trace, but only a termination makes
    the value of what follows zero.

    All arguments and the result are [T, N]. `value[t]` is V of the observation acted on,
    `next_value[t]` V of the observation that the action led to: at a truncation that is the
    episode's final observation, not the reset one.
    """
    shape = reward.shape
    for name, array in (
        ("value", value),
        ("next_value", next_value),
        ("terminated", terminated),
        ("truncated", truncated),
    ):
        assert array.shape == shape, f"{name} is {array.shape}, reward is {shape}"
    advantage: F32 = reward + gamma * next_value * ~terminated - value
    decay = (gamma * gae_lambda) * ~(terminated | truncated)
    decay = decay.astype(np.float32)
    carried = np.empty(shape[1:], dtype=np.float32)
    for t in range(len(advantage) - 2, -1, -1):
        np.multiply(decay[t], advantage[t + 1], out=carried)
        advantage[t] += carried
    return advantage
