"""What every learner offers to the trial that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sweeper.core.clock import Deadline
from sweeper.envs.vec_env import Observation
from sweeper.optim.build import Optimizer
from sweeper.rl.rollout import Rollout


class UpdateStatistics(NamedTuple):
    """Figures of one update; None where the algorithm has no such thing."""

    learning_rate: float | None = None
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
    """Trains a policy on a VecEnv that it was made with.

    It is made, and its environments are reset for the first time, before its budget begins.
    """

    def train(self, deadline: Deadline) -> Iterator[UpdateStatistics]:
        """Collect and learn until the deadline has expired; yields after each update.

        The VecEnv counts env steps on the deadline. Look at `deadline.expired` after every
        vector step, at `deadline.out_of_time` after every minibatch, and let schedules follow
        `deadline.progress`. Raises DivergedError when the loss or the parameters are not finite.
        """
        ...

    def act(self, observation: Observation, rng: np.random.Generator | None) -> NDArray[Any]:
        """Actions [n, ...] of the action space for observations [n, ...]: drawn with `rng`, or
        the policy's mode where that is None."""
        ...


@runtime_checkable
class Checkpointable(Protocol):
    """A learner that can be saved, and go on from there."""

    def state_dict(self) -> dict[str, Any]:
        """All that training and acting depend on: tensors, numbers and text, in dicts and
        lists."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` of a learner of the same spec and spaces gave."""
        ...


class Algorithm(Protocol):
    """The learning half of a learner: turns rollouts into better policies."""

    optimizer: Optimizer

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
