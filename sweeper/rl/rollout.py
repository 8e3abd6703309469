"""Collecting rollouts, and turning them into the batch that learners take.

Notation: T steps, N environments, `shape` of an environment's features, A action dimensions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeper.core.clock import Deadline
from sweeper.core.errors import DivergedError
from sweeper.core.timing import PhaseTimer
from sweeper.envs.vec_env import Observation, VecEnv, VecStep
from sweeper.rl.distributions import Distribution
from sweeper.rl.features import Features
from sweeper.rl.policy import Evaluator
from sweeper.rl.returns import generalized_advantage

F32 = NDArray[np.float32]


class Rollout(NamedTuple):
    """T steps of N environments; arrays are the collector's storage until the next rollout."""

    features: NDArray[Any]
    """[T + 1, N, *shape], or records [T + 1, N]: what was acted on; row T is what follows the last
    step."""
    action: NDArray[Any]
    """[T, N, A] as drawn, unclipped."""
    reward: F32
    """[T, N], normalized if the environment asks for it."""
    terminated: NDArray[np.bool_]
    """[T, N]"""
    truncated: NDArray[np.bool_]
    """[T, N]"""
    final: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]
    """(t [M], n [M], features [M, *shape]) of the final observation of each truncated episode."""


class Batch(NamedTuple):
    """A rollout's B = T x N transitions, in one order for every array."""

    features: NDArray[Any]
    """[B, *shape]"""
    action: NDArray[Any]
    """[B, A]"""
    log_prob: F32
    """[B] under the policy that acted."""
    value: F32
    """[B] by the network that acted."""
    advantage: F32
    """[B]"""
    returns: F32
    """[B]: advantage + value, the value's target."""

    def take(self, index: NDArray[np.int64]) -> Batch:
        """The transitions at `index`, copied."""
        return Batch(*(array[index] for array in self))

    def slice(self, start: int, stop: int) -> Batch:
        """Transitions start to stop - 1, as views."""
        return Batch(*(array[start:stop] for array in self))


class Collector:
    """Steps a VecEnv under a policy into preallocated storage."""

    def __init__(
        self,
        vec_env: VecEnv,
        encode: Features,
        evaluator: Evaluator,
        distribution: Distribution,
        *,
        n_steps: int,
        seed: int,
        timer: PhaseTimer,
    ) -> None:
        self._vec_env = vec_env
        self._evaluator = evaluator
        self._distribution = distribution
        self._rng = np.random.default_rng(seed)
        self._timer = timer
        self._encode = encode
        n = vec_env.n_envs
        self._features = np.zeros((n_steps + 1, n, *encode.shape), encode.dtype)
        self._action = np.zeros((n_steps, n, distribution.n_actions), distribution.action_dtype)
        self._reward = np.zeros((n_steps, n), np.float32)
        self._terminated = np.zeros((n_steps, n), np.bool_)
        self._truncated = np.zeros((n_steps, n), np.bool_)
        self._final: list[tuple[int, int, NDArray[Any]]] = []

    def reset(self) -> None:
        """Reset the environments; their first observations open the first rollout."""
        self._encode(self._vec_env.reset(), self._features[-1])

    def collect(self, deadline: Deadline) -> Rollout | None:
        """The next T steps, or None when the deadline cut them short.

        Each group of environments is stepped while the policy acts for the next. Raises
        DivergedError on observations that are not finite, and whatever the VecEnv raises.
        """
        vec_env, timer = self._vec_env, self._timer
        n_steps, n_envs = self._reward.shape
        self._final.clear()
        with timer("bookkeeping"):
            self._features[0] = self._features[-1]
            noise = self._distribution.noise(self._rng, (n_steps, n_envs))
            for group, rows in enumerate(vec_env.groups):
                self._act(0, group, rows, noise)
            for t in range(n_steps):
                for group, rows in enumerate(vec_env.groups):
                    self._record(t, rows, vec_env.step_wait(group))
                    more = t + 1 < n_steps
                    if deadline.out_of_time or (more and rows.stop == n_envs and deadline.expired):
                        self._drain(group, again=more)
                        return None
                    if more:
                        self._act(t + 1, group, rows, noise)
            self._check_finite()
            return self._rollout()

    def _act(self, t: int, group: int, rows: slice, noise: F32) -> None:
        with self._timer("inference"):
            outputs, log_std = self._evaluator.outputs(self._features[t, rows])
            action = self._distribution.sample(outputs, log_std, noise[t, rows])
            self._action[t, rows] = action
            env_action = self._distribution.to_env(action)
        self._vec_env.step_async(env_action, group)

    def _record(self, t: int, rows: slice, step: VecStep) -> None:
        self._reward[t, rows] = step.reward
        self._terminated[t, rows] = step.terminated
        self._truncated[t, rows] = step.truncated
        self._encode(step.observation, self._features[t + 1, rows])
        cut = step.truncated & ~step.terminated
        if cut.any():
            for i in np.flatnonzero(cut).tolist():
                self._final.append((t, rows.start + i, self._final_features(step, i)))

    def _final_features(self, step: VecStep, i: int) -> NDArray[Any]:
        final = step.final_observation
        row: Observation = (
            {key: part[i : i + 1] for key, part in final.items()}
            if isinstance(final, dict)
            else final[i : i + 1]
        )
        features = np.empty((1, *self._encode.shape), self._encode.dtype)
        self._encode(row, features)
        final_features: NDArray[Any] = features[0]
        return final_features

    def _drain(self, current: int, *, again: bool) -> None:
        """Finish the steps in flight: of the groups after the current one, and, where the
        earlier ones have been set going `again`, of those too."""
        for group in range(len(self._vec_env.groups)):
            if group > current or (again and group < current):
                self._vec_env.step_wait(group)

    def _check_finite(self) -> None:
        features = self._features["vector"] if self._features.dtype.names else self._features
        floats = [self._reward]
        if features.dtype == np.float32:  # bytes are finite
            floats.append(features)
        if not all(np.isfinite(array).all() for array in floats):
            raise DivergedError("an observation or reward is NaN or infinite")

    def _rollout(self) -> Rollout:
        m = len(self._final)
        t = np.fromiter((f[0] for f in self._final), np.int64, m)
        n = np.fromiter((f[1] for f in self._final), np.int64, m)
        final = np.empty((m, *self._encode.shape), self._encode.dtype)
        for row, (_, _, features) in enumerate(self._final):
            final[row] = features
        return Rollout(
            self._features,
            self._action,
            self._reward,
            self._terminated,
            self._truncated,
            (t, n, final),
        )


def build_batch(
    rollout: Rollout, evaluator: Evaluator, *, gamma: float, gae_lambda: float
) -> Batch:
    """Values, log-probabilities and advantages of a whole rollout, computed at once.

    Nothing while collecting needs them, so they cost one pass of large matrix products
    instead of T small ones.
    """
    n_steps, n_envs = rollout.reward.shape
    features = rollout.features[:-1].reshape(n_steps * n_envs, *rollout.features.shape[2:])
    action = rollout.action.reshape(n_steps * n_envs, -1)
    log_prob, flat_value = evaluator.evaluate(features, action)
    value = flat_value.reshape(n_steps, n_envs)
    next_value = np.concatenate((value[1:], evaluator.values(rollout.features[-1])[None]))
    t, n, final = rollout.final
    if len(t):
        next_value[t, n] = evaluator.values(final)
    advantage = generalized_advantage(
        rollout.reward,
        value,
        next_value=next_value,
        terminated=rollout.terminated,
        truncated=rollout.truncated,
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    returns = advantage + value
    return Batch(features, action, log_prob, flat_value, advantage.ravel(), returns.ravel())
