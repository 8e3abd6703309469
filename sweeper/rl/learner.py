"""What every learner offers to the training loop."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sweeper.core.clock import Deadline
from sweeper.rl.rollout import Rollout


class UpdateStatistics(NamedTuple):
    """Figures of one update; None where the algorithm has no such thing."""

    learning_rate: float
    approx_kl: float | None = None
    """Mean of (ratio - 1) - log ratio, over the last epoch."""
    clip_fraction: float | None = None
    """Share of transitions whose ratio lay outside the clip range, over the last epoch."""
    entropy: float | None = None
    policy_loss: float | None = None
    value_loss: float | None = None
    explained_variance: float | None = None
    """1 - Var(returns - value) / Var(returns), with the values before the update."""
    grad_norm: float | None = None
    """Before clipping, mean over minibatches."""
    kfac_nu: float | None = None
    """How far K-FAC's trust region shortened the steps: their factor, mean over minibatches."""


class Learner(Protocol):
    """Turns rollouts into better policies."""

    def update(self, rollout: Rollout, deadline: Deadline) -> UpdateStatistics:
        """Learn from one rollout; returns early once the deadline has passed.

        Raises DivergedError when the loss or the parameters are not finite.
        """
        ...


def explained_variance(value: NDArray[np.float32], returns: NDArray[np.float32]) -> float | None:
    """1 - Var(returns - value) / Var(returns); None when the returns do not vary."""
    variance = float(returns.var())
    return 1.0 - float((returns - value).var()) / variance if variance > 0 else None


def normalized(advantage: NDArray[np.float32]) -> NDArray[np.float32]:
    """Advantages [B] to mean 0 and deviation 1."""
    centered: NDArray[np.float32] = advantage - advantage.mean()
    centered /= np.sqrt(np.dot(centered, centered) / len(centered)) + 1e-8
    return centered
