"""`EnvFactory`: a picklable recipe for one environment. Plain data, so that workers which
make environments from it need not import pydantic.

The one order of wrappers, innermost first: the environment, its time limit, the user's
wrappers. Action clipping or rescaling comes outside all of them (`sweeper.envs.block`), and
episode returns are counted there as well, so neither is a wrapper.
"""

from __future__ import annotations

import copy
import importlib
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit


@dataclass(frozen=True)
class EnvFactory:
    """Calling it returns a new environment."""

    id: str | None
    """A registered id, or"""
    make: str | None
    """a function, `package.module:name`."""
    kwargs: dict[str, Any]
    max_episode_steps: int | None
    wrappers: tuple[tuple[str, dict[str, Any]], ...]
    """(`package.module:Name`, keyword arguments), innermost first."""

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """A new environment. Raises whatever it or a wrapper raises."""
        env = self._from_function() if self.id is None else self._registered(self.id)
        for path, kwargs in self.wrappers:
            env = load(path)(env, **kwargs)
        return env

    def _registered(self, env_id: str) -> gymnasium.Env[Any, Any]:
        module, _, name = env_id.rpartition(":")
        if module or name.startswith("ALE/"):
            importlib.import_module(module or "ale_py")  # registers its environments
        spec = copy.deepcopy(gymnasium.spec(name))
        # Neither guards anything here: we reset before we step, and check spaces and shapes
        # ourselves. Each would cost a Python call on every step.
        spec.order_enforce = False
        spec.disable_env_checker = True
        return gymnasium.make(spec, max_episode_steps=self.max_episode_steps, **self.kwargs)

    def _from_function(self) -> gymnasium.Env[Any, Any]:
        assert self.make is not None
        env: gymnasium.Env[Any, Any] = load(self.make)(**self.kwargs)
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"{self.make} must return a gymnasium.Env, got {type(env).__name__}")
        if self.max_episode_steps is not None:
            env = TimeLimit(env, self.max_episode_steps)
        return env


def load(path: str) -> Any:
    """What `package.module:name.attribute` names. Raises ImportError or AttributeError."""
    module, _, names = path.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found
