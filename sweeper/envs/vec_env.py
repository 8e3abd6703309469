"""`VecEnv`: N copies of one environment, stepped together.

Two implementations, `SerialVecEnv` (the oracle: every environment in this process) and
`SubprocVecEnv` (shared memory and worker processes), produce the same trajectories to the
bit for the same seed. What follows holds for both.

Autoreset is SAME_STEP: when an episode ends, the environment is reset within the same step.
`VecStep.observation` is then the first observation of the next episode, and the last one of
the finished episode is in `final_observation`, where its value can still be bootstrapped.
No transition is ever a dummy.

Environments are split into `groups` (one or two contiguous slices). A group can be stepped
apart from the others, so that the policy can act for one half while the other half's
environments step: `step_async(actions, group)`, later `step_wait(group)`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import gymnasium
from numpy.typing import NDArray

Observation = NDArray[Any] | dict[str, NDArray[Any]]
"""Batched over environments: an array [N, ...], or one per key of a Dict space (a Tuple
space has the keys "0", "1", ...)."""


class VecStep(NamedTuple):
    """One step of n environments (all of them, or one group's).

    The arrays are views that the next step of the same group overwrites: copy what you keep.
    """

    observation: Observation
    """[n, ...] in the space's dtype: what the next action answers to."""
    reward: NDArray[Any]
    """[n] float32."""
    terminated: NDArray[Any]
    """[n] bool: the episode reached an end of its own; the value beyond it is zero."""
    truncated: NDArray[Any]
    """[n] bool: the episode was cut; the value beyond it is that of final_observation."""
    final_observation: Observation
    """[n, ...]: last observation of the episode, valid where terminated or truncated."""
    episode_return: NDArray[Any]
    """[n] float64: undiscounted return of the episode, valid where it ended."""
    episode_length: NDArray[Any]
    """[n] int64: its length in env steps, valid where it ended."""


class VecEnv(Protocol):
    """N environments behind one interface; a context manager that closes itself."""

    n_envs: int
    n_workers: int
    """Worker processes; 0 when the environments live in this one."""
    single_observation_space: gymnasium.Space[Any]
    single_action_space: gymnasium.Space[Any]
    groups: tuple[slice, ...]
    """Contiguous slices over environments that can be stepped apart."""
    worker_pids: tuple[int, ...]

    def reset(self) -> Observation:
        """First observations [N, ...]. The seeds were given at construction; calling again
        continues their streams. Raises EnvWorkerError, EnvTimeoutError, EnvLostError."""
        ...

    def step(self, actions: NDArray[Any]) -> VecStep:
        """Step every environment with actions [N, ...] in the action space's dtype."""
        ...

    def step_async(self, actions: NDArray[Any], group: int = 0) -> None:
        """Start stepping one group with its actions [n, ...]."""
        ...

    def step_wait(self, group: int = 0) -> VecStep:
        """Finish the step begun by `step_async` of the same group."""
        ...

    def close(self) -> None:
        """End every environment and process; bounded in time, safe to call twice."""
        ...

    def __enter__(self) -> VecEnv: ...

    def __exit__(self, *exc_info: object) -> None: ...
