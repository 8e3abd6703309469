"""`EnvBlock`: the one loop that steps environments, in this process or in a worker.

That both VecEnvs share it is what makes their trajectories equal to the bit. It is also the
only Python that runs once an environment and step, so it allocates nothing that it can
keep: bound methods, output arrays and counters are set up once.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NoReturn

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sweeper.core.errors import EnvMemoryError, EnvWorkerError, InputError
from sweeper.envs.arrays import VecArrays, check_spaces, leaves

EnvFn = Callable[[], gymnasium.Env[Any, Any]]
ActionMode = Literal["clip", "rescale", "none"]

ENV_FAULTS = (Exception, SystemExit)
"""What is the environment's fault, whatever it is; not a Ctrl-C."""
_FITTING = {"b": "b", "i": "biu", "u": "biu", "f": "biuf"}
"""Kind of a space's numbers (numpy's letter) -> those that can stand for it."""


def env_seeds(seed: int, n_envs: int) -> list[int]:
    """One seed an environment, in [0, 2^31), from independent children of `seed`.

    Neighbouring seeds share no streams, as they would with `seed + index`.
    """
    children = np.random.SeedSequence(seed).spawn(n_envs)
    # Half of uint32: some simulators keep their seed in a signed C int.
    return [int(child.generate_state(1)[0]) >> 1 for child in children]


def make_envs(
    env_fns: Sequence[EnvFn], seeds: Sequence[int], *, first_index: int = 0
) -> list[gymnasium.Env[Any, Any]]:
    """Call every function; close what was made if one of them fails.

    Raises EnvWorkerError when a function raises, and InputError when two return one
    instance, when spaces differ or when arrays cannot hold them.
    """
    envs: list[gymnasium.Env[Any, Any]] = []
    try:
        for position, (make, seed) in enumerate(zip(env_fns, seeds, strict=True)):
            try:
                envs.append(make())
            except ENV_FAULTS as error:
                raise_env_error(error, first_index + position, seed, "its constructor")
        _check_alike(envs, first_index)
        check_spaces(envs[0].observation_space, envs[0].action_space)
    except BaseException:
        close_envs(envs, seeds, first_index=first_index)
        raise
    return envs


def close_envs(
    envs: Sequence[gymnasium.Env[Any, Any]], seeds: Sequence[int], *, first_index: int = 0
) -> list[str]:
    """Close them all, whatever each does; returns what those that raised had to say."""
    complaints = []
    for position, (env, seed) in enumerate(zip(envs, seeds, strict=False)):
        try:
            env.close()
        except ENV_FAULTS as error:
            who = one_environment(first_index + position, seed)
            complaints.append(describe_error(error, who, "close"))
    return complaints


class EnvBlock:
    """Consecutive environments that are reset and stepped together, one row each.

    `arrays` holds their rows only: actions are read from it, everything else is written to
    it. `cursor[0]` follows the index (in the whole VecEnv) of the environment at work, so
    that whoever watches can tell which one hangs or died.
    """

    def __init__(
        self,
        envs: Sequence[gymnasium.Env[Any, Any]],
        seeds: Sequence[int],
        arrays: VecArrays,
        *,
        first_index: int,
        action: ActionMode,
        cursor: memoryview,
    ) -> None:
        self._seeds = list(seeds)
        self._first_index = first_index
        self._arrays = arrays
        self._cursor = cursor
        self._indices = range(first_index, first_index + len(envs))
        self._steps = [env.step for env in envs]
        self._resets = [env.reset for env in envs]
        self._leaves = list(leaves(envs[0].observation_space))
        self._read_actions = action_reader(envs[0].action_space, arrays.action, action)
        self._fresh = True
        self._returns = [0.0] * len(envs)
        self._began_at = [0] * len(envs)
        self._tick = 0
        self._flags_set = False

    def reset(self) -> None:
        """Begin an episode everywhere; the first time with the seeds. Raises EnvWorkerError."""
        k = 0
        try:
            for k, reset in enumerate(self._resets):
                self._cursor[0] = self._indices[k]
                observation, _ = reset(seed=self._seeds[k]) if self._fresh else reset()
                self._check(observation)
                self._write(self._arrays.observation, k, observation)
        except ENV_FAULTS as error:
            raise_env_error(error, self._indices[k], self._seeds[k], "reset")
        self._fresh = False
        self._returns = [0.0] * len(self._resets)
        self._began_at = [self._tick] * len(self._resets)

    def step(self) -> None:
        """Step each environment once; reset those whose episode ends. Raises EnvWorkerError."""
        arrays, cursor, returns, first = (
            self._arrays,
            self._cursor,
            self._returns,
            self._first_index,
        )
        observation_out, reward_out = arrays.observation, arrays.reward
        flat = not isinstance(observation_out, dict)
        if self._flags_set:
            arrays.terminated.fill(False)
            arrays.truncated.fill(False)
            self._flags_set = False
        self._tick += 1
        is_first = self._tick == 1
        k = 0
        try:
            for k, (step, action) in enumerate(
                zip(self._steps, self._read_actions(), strict=False)
            ):
                cursor[0] = first + k
                observation, reward, terminated, truncated, _ = step(action)
                if is_first:
                    self._check(observation)
                reward_out[k] = reward
                # float: a float32 reward would otherwise be summed in float32
                returns[k] += float(reward)
                if terminated or truncated:
                    self._end_episode(k, observation, terminated, truncated)
                    observation, _ = self._resets[k]()
                if flat:
                    observation_out[k] = observation  # type: ignore[index]
                else:
                    self._write(observation_out, k, observation)
        except ENV_FAULTS as error:
            raise_env_error(error, self._indices[k], self._seeds[k], "step")

    def _end_episode(self, k: int, observation: Any, terminated: Any, truncated: Any) -> None:
        arrays = self._arrays
        self._write(arrays.final_observation, k, observation)
        arrays.terminated[k] = terminated
        arrays.truncated[k] = truncated
        arrays.episode_return[k] = self._returns[k]
        arrays.episode_length[k] = self._tick - self._began_at[k]
        self._returns[k] = 0.0
        self._began_at[k] = self._tick
        self._flags_set = True

    def _write(self, out: Any, k: int, observation: Any) -> None:
        if isinstance(out, dict):
            for leaf in self._leaves:
                out[leaf.key][k] = leaf.of(observation)
        else:
            out[k] = observation

    def _check(self, observation: Any) -> None:
        # Assigning to a row would broadcast a wrong shape, and cut off fractions, without a word.
        for leaf in self._leaves:
            given, space = np.asarray(leaf.of(observation)), leaf.space
            name = f"observation {leaf.key!r}" if leaf.path else "observation"
            if given.shape != space.shape:
                raise ValueError(f"{name} has shape {given.shape}, its space says {space.shape}")
            if space.dtype is not None and given.dtype.kind not in _FITTING[space.dtype.kind]:
                raise ValueError(f"{name} is {given.dtype}, its space says {space.dtype}")


def action_reader(
    space: gymnasium.Space[Any], actions: NDArray[Any], mode: ActionMode
) -> Callable[[], Iterable[Any]]:
    """A function that returns one action an environment, from the rows of `actions`.

    Discrete actions come as Python ints. Arrays come as rows of a copy made for this step:
    an environment may keep the action that it was given. Box actions are clipped to their
    bounds, or (`rescale`) clipped to [-1, 1] and mapped linearly onto them, for all
    environments at once, which a wrapper on each could not do.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return actions.tolist
    convert = action_converter(space, actions, mode)
    if space.shape == ():  # iterating over a vector gives scalars, and actions are arrays
        return lambda: map(np.asarray, convert())
    return convert


def action_converter(
    space: gymnasium.Space[Any], actions: NDArray[Any], mode: ActionMode
) -> Callable[[], NDArray[Any]]:
    """A function that returns a new array of all environments' actions, Box actions clipped or
    rescaled, from the rows of `actions`."""
    if not isinstance(space, gymnasium.spaces.Box) or mode == "none":
        return actions.copy
    low, high = space.low, space.high
    if mode == "clip":
        return lambda: np.minimum(np.maximum(actions, low), high)
    middle, half = (high + low) / 2, (high - low) / 2

    def rescaled() -> NDArray[Any]:
        scaled = np.minimum(np.maximum(actions, -1), 1) * half + middle
        # Rounding may step over a bound, which some environments assert.
        inside: NDArray[Any] = np.minimum(np.maximum(scaled, low), high)
        return inside.astype(space.dtype, copy=False)

    return rescaled


def policy_action_space(space: gymnasium.Space[Any], mode: ActionMode) -> gymnasium.Space[Any]:
    """The action space that the policy sees: [-1, 1] when its actions are rescaled.

    Raises InputError for bounds that are not finite, which nothing can be rescaled to.
    """
    if isinstance(space, gymnasium.spaces.Box) and mode == "rescale":
        if not space.is_bounded("both"):
            raise InputError(f"`action: rescale` needs finite bounds, the action space is {space}")
        return gymnasium.spaces.Box(-1.0, 1.0, space.shape, space.dtype)
    return space


def raise_env_error(error: BaseException, index: int, seed: int, where: str) -> NoReturn:
    """Raise EnvWorkerError for what environment `index` raised in `where`."""
    kind = EnvMemoryError if isinstance(error, MemoryError) else EnvWorkerError
    raise kind(describe_error(error, one_environment(index, seed), where)) from error


def one_environment(index: int, seed: int) -> str:
    """How a message names an environment."""
    return f"environment {index} (seed {seed})"


def describe_error(error: BaseException, who: str, where: str) -> str:
    """What `who` raised in `where`: a line that says it, then the traceback."""
    summary = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    trace = "".join(traceback.format_exception(error))
    return f"{who} raised in {where}: {summary}\n{trace}"


def _check_alike(envs: Sequence[gymnasium.Env[Any, Any]], first_index: int) -> None:
    owner: dict[int, int] = {}
    for position, env in enumerate(envs):
        index = first_index + position
        twin = owner.setdefault(id(env.unwrapped), index)
        if twin != index:
            raise InputError(
                f"environments {twin} and {index} are one instance: "
                "each call of an environment function must make a new one"
            )
        check_same_spaces(env, envs[0], index=index, first_index=first_index)


def check_same_spaces(one: Any, other: Any, *, index: int, first_index: int) -> None:
    """Raises InputError when two environments (or descriptions of them) differ in a space."""
    for name in ("observation_space", "action_space"):
        if getattr(one, name) != getattr(other, name):
            raise InputError(
                f"every environment must have the same spaces: {name} of environment {index} is "
                f"{getattr(one, name)}, of environment {first_index} {getattr(other, name)}"
            )
