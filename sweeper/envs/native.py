"""`NativeVecEnv`: any `gymnasium.vector.VectorEnv`, with the semantics of our own.

Environments that are vectorized by their authors (arrays instead of objects, or C++ threads)
are faster than any loop over single ones. What differs between them is when they reset:

- `SAME_STEP`: within the step, as we do; the last observations come in `info["final_obs"]`.
- `DISABLED`: when told to, by `reset(options={"reset_mask": ended})`, which we do at once.
- `NEXT_STEP`: in the step after, which for the ended environments is a dummy transition while
  it is a real one for the others. Nothing outside can undo that, so it is refused.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from sweeper.core.errors import EnvWorkerError, InputError
from sweeper.envs.arrays import VecArrays, check_spaces, leaves
from sweeper.envs.block import (
    ENV_FAULTS,
    ActionMode,
    action_converter,
    describe_error,
    env_seeds,
)
from sweeper.envs.groups import split
from sweeper.envs.in_process import InProcessVecEnv
from sweeper.envs.vec_env import Observation


class MakeVector(Protocol):
    """Makes a VectorEnv; `seed` is for those that are seeded when they are made."""

    def __call__(self, n_envs: int, *, seed: int) -> VectorEnv[Any, Any, Any]:
        """`n_envs` new environments."""
        ...


class NativeVecEnv(InProcessVecEnv):
    """A VecEnv over one VectorEnv a group; see `sweeper.envs.vec_env.VecEnv` for the contract.

    Trajectories are the implementation's own: equal for equal seeds, not equal to those of
    the same environment elsewhere. Groups are stepped one after the other.

    Raises InputError for a VectorEnv that cannot be used (how it resets, its spaces), and
    EnvWorkerError for one that raises.
    """

    def __init__(
        self,
        make: MakeVector,
        *,
        n_envs: int,
        seed: int = 0,
        n_groups: int = 1,
        action: ActionMode = "none",
    ) -> None:
        groups = split(n_envs, n_groups, "n_groups")
        seeds = env_seeds(seed, n_groups)
        vectors: list[VectorEnv[Any, Any, Any]] = []
        names = [
            f"environments {rows.start} to {rows.stop - 1} (seed {group_seed})"
            for rows, group_seed in zip(groups, seeds, strict=True)
        ]

        def close_all() -> list[str]:
            complaints = []
            for vector, name in zip(vectors, names, strict=False):
                try:
                    vector.close()
                except ENV_FAULTS as error:
                    complaints.append(describe_error(error, name, "close"))
            return complaints

        def block(rows: slice, arrays: VecArrays) -> VectorBlock:
            group = groups.index(rows)
            return VectorBlock(
                vectors[group], arrays, name=names[group], seed=seeds[group], action=action
            )

        try:
            for rows, group_seed, name in zip(groups, seeds, names, strict=True):
                try:
                    vectors.append(make(rows.stop - rows.start, seed=group_seed))
                except InputError:
                    raise
                except ENV_FAULTS as error:
                    _raise(error, name, "its constructor")
                _check(vectors, rows)
            super().__init__(
                vectors[0].single_observation_space,
                vectors[0].single_action_space,
                n_envs=n_envs,
                groups=groups,
                action=action,
                make_block=block,
                close_all=close_all,
            )
        except BaseException:
            close_all()
            raise


class VectorBlock:
    """The environments of one VectorEnv, stepped into their rows of `arrays`."""

    def __init__(
        self,
        vector: VectorEnv[Any, Any, Any],
        arrays: VecArrays,
        *,
        name: str,
        seed: int,
        action: ActionMode,
    ) -> None:
        self._vector = vector
        self._arrays = arrays
        self._name = name
        self._seed: int | None = seed
        self._leaves = list(leaves(vector.single_observation_space))
        self._read_actions = action_converter(vector.single_action_space, arrays.action, action)
        self._resets_itself = vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        self._returns = np.zeros(vector.num_envs)
        self._lengths = np.zeros(vector.num_envs, np.int64)

    def reset(self) -> None:
        """Begin an episode everywhere; the first time with the seed. Raises EnvWorkerError."""
        try:
            observation, _ = self._vector.reset(seed=self._seed)
            self._check_shapes(observation)
            self._write(self._arrays.observation, ..., observation)
        except ENV_FAULTS as error:
            _raise(error, self._name, "reset")
        self._seed = None
        self._returns.fill(0.0)
        self._lengths.fill(0)

    def step(self) -> None:
        """Step each environment once; reset those whose episode ends. Raises EnvWorkerError."""
        arrays = self._arrays
        try:
            observation, reward, terminated, truncated, info = self._vector.step(
                self._read_actions()
            )
            arrays.reward[...] = reward
            arrays.terminated[...] = terminated
            arrays.truncated[...] = truncated
            self._write(arrays.observation, ..., observation)
            self._returns += reward
            self._lengths += 1
            ended = arrays.terminated | arrays.truncated
            if ended.any():
                self._end_episodes(ended, observation, info)
        except ENV_FAULTS as error:
            _raise(error, self._name, "step")

    def _end_episodes(self, ended: NDArray[np.bool_], observation: Any, info: Any) -> None:
        arrays, rows = self._arrays, np.flatnonzero(ended)
        arrays.episode_return[rows] = self._returns[rows]
        arrays.episode_length[rows] = self._lengths[rows]
        self._returns[rows] = 0.0
        self._lengths[rows] = 0
        if not self._resets_itself:
            self._write(arrays.final_observation, rows, observation, rows)
            first, _ = self._vector.reset(options={"reset_mask": ended})
            # Gymnasium answers with all environments, EnvPool with those that were reset.
            whole = len(self._leaves[0].of(first)) == len(ended)
            self._write(arrays.observation, rows, first, rows if whole else ...)
            return
        final = info["final_obs"]
        if isinstance(final, np.ndarray) and final.dtype == object:  # one object an environment
            for row in rows:
                self._write(arrays.final_observation, row, final[row])
        else:
            self._write(arrays.final_observation, rows, final, rows)

    def _write(self, out: Observation, rows: Any, observation: Any, picked: Any = ...) -> None:
        """Write the rows `picked` of a batched observation to `rows` of `out`."""
        for leaf in self._leaves:
            target = out[leaf.key] if isinstance(out, dict) else out
            target[rows] = np.asarray(leaf.of(observation))[picked]

    def _check_shapes(self, observation: Any) -> None:
        # Assigning would broadcast a wrong shape without a word.
        for leaf in self._leaves:
            given = np.shape(leaf.of(observation))
            wanted = (self._vector.num_envs, *(leaf.space.shape or ()))
            if given != wanted:
                name = f" {leaf.key!r}" if leaf.path else ""
                raise ValueError(f"observation{name} has shape {given}, not {wanted}")


def _raise(error: BaseException, name: str, where: str) -> NoReturn:
    raise EnvWorkerError(describe_error(error, name, where)) from error


def _check(vectors: list[VectorEnv[Any, Any, Any]], rows: slice) -> None:
    """Raises InputError for a last VectorEnv that cannot be used."""
    vector, n_envs = vectors[-1], rows.stop - rows.start
    kind = type(vector.unwrapped).__name__
    if vector.num_envs != n_envs:
        raise InputError(f"{kind} was asked for {n_envs} environments and has {vector.num_envs}")
    if any(vector.unwrapped is other.unwrapped for other in vectors[:-1]):
        raise InputError(f"{kind}: each call of its function must make a new one, got one twice")
    mode = vector.metadata.get("autoreset_mode")
    if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        raise InputError(
            f"{kind} has autoreset_mode {getattr(mode, 'value', mode)}, which mixes dummy "
            "transitions with real ones: it must be SAME_STEP, or DISABLED with `reset_mask`"
        )
    check_spaces(vector.single_observation_space, vector.single_action_space)
