"""A VecEnv as Stable-Baselines3 expects one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv as BaseVecEnv

from sweeper.envs.vec_env import Observation, VecEnv

Step = tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]


class SB3VecEnv(BaseVecEnv):  # type: ignore[misc]
    """Observations and rewards are copies: Stable-Baselines3 keeps the ones and changes the
    others. Where an episode ended, its info holds the final observation, and whether it was cut.
    """

    def __init__(self, vec_env: VecEnv) -> None:
        self._vec_env = vec_env
        super().__init__(
            vec_env.n_envs, vec_env.single_observation_space, vec_env.single_action_space
        )

    def reset(self) -> Observation:
        """First observations [N, ...]."""
        return _copy(self._vec_env.reset())

    def step_async(self, actions: NDArray[Any]) -> None:
        """Kept for `step_wait`: the groups of the VecEnv are stepped as one."""
        self._actions = actions

    def step_wait(self) -> Step:
        """Observations [N, ...], rewards [N], whether ended [N], and an info for each."""
        step = self._vec_env.step(self._actions)
        ended = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended).tolist():
            final = step.final_observation
            infos[i] = {
                "terminal_observation": {key: part[i].copy() for key, part in final.items()}
                if isinstance(final, dict)
                else final[i].copy(),
                "TimeLimit.truncated": bool(step.truncated[i] and not step.terminated[i]),
            }
        return _copy(step.observation), step.reward.copy(), ended, infos

    def close(self) -> None:
        """Nothing: who made the VecEnv closes it."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """None of the environments' attributes but `render_mode`, which is None."""
        del indices
        if attr_name != "render_mode":
            raise AttributeError(attr_name)
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: environments live in workers that only take steps, and nothing here sets any."""
        del value, indices
        raise AttributeError(f"{attr_name}: environments' attributes cannot be set from here")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Refused, for the same reason."""
        del args, indices, kwargs
        raise AttributeError(f"{method_name}: environments' methods cannot be called from here")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Never, as far as it can tell."""
        del wrapper_class, indices
        return [False] * self.num_envs


def _copy(observation: Observation) -> Observation:
    if isinstance(observation, dict):
        return {key: part.copy() for key, part in observation.items()}
    return observation.copy()
