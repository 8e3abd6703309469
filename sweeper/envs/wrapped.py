"""What a trial puts around its VecEnv: counting, timing and normalization, for any learner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Self

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from sweeper.core.clock import Deadline
from sweeper.core.timing import PhaseTimer
from sweeper.envs.normalize import CLIP, ObservationNormalizer, RewardNormalizer
from sweeper.envs.vec_env import Observation, VecEnv, VecStep

ALL = slice(None)


class VecEnvWrapper(ABC):
    """A VecEnv that looks at, or changes, the steps of another."""

    def __init__(self, vec_env: VecEnv) -> None:
        self.vec_env = vec_env
        self.n_envs = vec_env.n_envs
        self.n_workers = vec_env.n_workers
        self.single_observation_space: Space[Any] = vec_env.single_observation_space
        self.single_action_space: Space[Any] = vec_env.single_action_space
        self.groups = vec_env.groups
        self.worker_pids = vec_env.worker_pids

    def reset(self) -> Observation:
        """See VecEnv."""
        return self.vec_env.reset()

    def step(self, actions: NDArray[Any]) -> VecStep:
        """See VecEnv."""
        return self._stepped(self.vec_env.step(actions), ALL)

    def step_async(self, actions: NDArray[Any], group: int = 0) -> None:
        """See VecEnv."""
        self.vec_env.step_async(actions, group)

    def step_wait(self, group: int = 0) -> VecStep:
        """See VecEnv."""
        return self._stepped(self.vec_env.step_wait(group), self.groups[group])

    def close(self) -> None:
        """See VecEnv."""
        self.vec_env.close()

    @abstractmethod
    def _stepped(self, step: VecStep, rows: slice) -> VecStep:
        """The step of the environments `rows`, as this wrapper hands it on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class EpisodeStatistics:
    """Training episodes: how many, and the last hundred of them."""

    WINDOW = 100

    def __init__(self) -> None:
        self.episodes = 0
        self._returns: deque[float] = deque(maxlen=self.WINDOW)
        self._lengths: deque[int] = deque(maxlen=self.WINDOW)

    def add(self, returns: NDArray[np.float64], lengths: NDArray[np.int64]) -> None:
        """Count finished episodes: undiscounted returns [k] and lengths [k]."""
        self.episodes += len(returns)
        self._returns.extend(returns.tolist())
        self._lengths.extend(lengths.tolist())

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last hundred episodes; None before the first."""
        return sum(self._returns) / len(self._returns) if self._returns else None

    @property
    def mean_length(self) -> float | None:
        """Mean length of the same episodes, in env steps."""
        return sum(self._lengths) / len(self._lengths) if self._lengths else None

    @property
    def is_full(self) -> bool:
        """Whether the means are over a full window."""
        return len(self._returns) == self.WINDOW


class MeteredVecEnv(VecEnvWrapper):
    """Counts env steps and episodes, and charges the wait for environments to `env_wait`.

    Whatever the learner, its steps are counted here: on `deadline`, once that has been set.
    """

    def __init__(self, vec_env: VecEnv, timer: PhaseTimer) -> None:
        super().__init__(vec_env)
        self.statistics = EpisodeStatistics()
        self.deadline: Deadline | None = None
        self._wait = timer("env_wait")

    def reset(self) -> Observation:
        """See VecEnv."""
        with self._wait:
            return self.vec_env.reset()

    def step(self, actions: NDArray[Any]) -> VecStep:
        """See VecEnv."""
        with self._wait:
            step = self.vec_env.step(actions)
        return self._stepped(step, ALL)

    def step_async(self, actions: NDArray[Any], group: int = 0) -> None:
        """See VecEnv."""
        if not self.n_workers:  # nobody is woken: it notes the actions down
            self.vec_env.step_async(actions, group)
            return
        with self._wait:
            self.vec_env.step_async(actions, group)

    def step_wait(self, group: int = 0) -> VecStep:
        """See VecEnv."""
        with self._wait:
            step = self.vec_env.step_wait(group)
        return self._stepped(step, self.groups[group])

    def _stepped(self, step: VecStep, rows: slice) -> VecStep:
        del rows
        if self.deadline is not None:
            self.deadline.env_steps += len(step.reward)
        ended = step.terminated | step.truncated
        if ended.any():
            self.statistics.add(step.episode_return[ended], step.episode_length[ended])
        return step


class NormalizedVecEnv(VecEnvWrapper):
    """Observations and rewards normalized by statistics that each step adds to.

    Final observations are normalized, and not learned from. Episode returns stay as they are.
    With `frozen`, nothing is learned: evaluation. Raises InputError for observations that are
    not a Box.
    """

    def __init__(
        self,
        vec_env: VecEnv,
        *,
        observation: ObservationNormalizer | None,
        reward: RewardNormalizer | None,
        timer: PhaseTimer,
        frozen: bool = False,
    ) -> None:
        super().__init__(vec_env)
        self._observation = observation
        self._reward = reward
        self._normalize = timer("normalize")
        self._frozen = frozen
        if observation is not None:
            shape = vec_env.single_observation_space.shape
            assert shape is not None
            self.single_observation_space = spaces.Box(-CLIP, CLIP, shape, np.float32)
            self._final = np.zeros((self.n_envs, *shape), np.float32)

    def reset(self) -> Observation:
        """See VecEnv."""
        observation = self.vec_env.reset()
        with self._normalize:
            return self._observed(observation)

    def _stepped(self, step: VecStep, rows: slice) -> VecStep:
        with self._normalize:
            if self._reward is not None:
                reward = self._reward(step.reward, step.terminated, step.truncated, rows)
                step = step._replace(reward=reward)
            if self._observation is None:
                return step
            observation = self._observed(step.observation)
            final = self._final[rows]
            ended = step.terminated | step.truncated
            if ended.any():
                assert not isinstance(step.final_observation, dict)
                final[ended] = self._observation.normalize(step.final_observation[ended])
            return step._replace(observation=observation, final_observation=final)

    def _observed(self, observation: Observation) -> Observation:
        if self._observation is None:
            return observation
        assert not isinstance(observation, dict)  # ObservationNormalizer takes a Box alone
        if not self._frozen:
            self._observation.update(observation)
        return self._observation.normalize(observation)
