"""Combinations of valid values that cannot run together.

The one statement of these rules: `TrialSpec` refuses by them, and the search space counts,
narrows and repairs by them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from sweeper.rl.spec import optimizer_complaint


class Clash(NamedTuple):
    """The key to change (dotted, from the trial) and why."""

    path: str
    message: str


def workers_clash(
    *, n_envs: int, envs_per_worker: int | Literal["auto"], overlap: bool
) -> Clash | None:
    """Whether the environments cannot be shared out like this."""
    if envs_per_worker != "auto" and not 1 <= envs_per_worker <= n_envs:
        return Clash(
            "parallelism.envs_per_worker",
            f"must be `auto` or 1 to n_envs = {n_envs}, got {envs_per_worker}",
        )
    if overlap and n_envs < 2:
        return Clash("parallelism.overlap", "needs at least 2 envs to make two halves")
    return None


def batch_clash(
    *, n_envs: int, n_steps: int, n_minibatches: int | None, normalize_advantage: bool
) -> Clash | None:
    """Whether a rollout cannot be cut into minibatches like this; `n_minibatches` is None for
    an algorithm that takes the rollout whole."""
    batch = n_envs * n_steps
    size = f"n_envs x n_steps = {n_envs} x {n_steps} = {batch}"
    if n_minibatches is not None and batch % n_minibatches:
        return Clash(
            "algorithm.n_minibatches", f"must divide the batch, {size}, got {n_minibatches}"
        )
    if normalize_advantage and batch // (n_minibatches or 1) < 2:
        return Clash(
            "algorithm.n_steps" if n_minibatches is None else "algorithm.n_minibatches",
            f"leaves minibatches of 1, whose advantage cannot be normalized ({size})",
        )
    return None


def optimizer_clash(*, algorithm: str, optimizer: str) -> Clash | None:
    """Whether an algorithm of this kind needs another optimizer."""
    message = optimizer_complaint(algorithm, optimizer)
    return Clash("algorithm.optimizer.kind", message) if message else None
