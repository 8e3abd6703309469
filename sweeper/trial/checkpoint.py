"""A trained learner in one file: what goes on training, or plays, later and elsewhere.

The file holds tensors, numbers and text alone and is read as such: opening one that somebody
else made runs no code of theirs. It is written whole or not at all.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from pydantic import ValidationError

from sweeper.core.clock import Deadline, MonotonicClock
from sweeper.core.errors import InputError
from sweeper.core.timing import PhaseTimer
from sweeper.envs.normalize import Moments, ObservationNormalizer, RewardNormalizer, RewardState
from sweeper.envs.vec_env import VecEnv
from sweeper.envs.wrapped import NormalizedVecEnv
from sweeper.rl.build import build_learner
from sweeper.rl.learner import Checkpointable, Learner
from sweeper.trial.spec import TrialSpec

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """A trial at the end of its training."""

    spec: TrialSpec
    env_steps: int
    """Spent on training it, in all."""
    elapsed_seconds: float
    """Likewise."""
    learner: dict[str, Any]
    """As `Checkpointable.state_dict` gave it: weights, optimizer, random streams."""
    observation: Moments | None
    """Statistics of the observations, where those are normalized."""
    reward: Moments | None
    """Of the discounted return, where rewards are normalized."""

    @classmethod
    def of(
        cls,
        spec: TrialSpec,
        deadline: Deadline,
        learner: Learner,
        *,
        observation: ObservationNormalizer | None,
        reward: RewardNormalizer | None,
    ) -> Checkpoint:
        """Of a learner as it stands. Raises InputError for one that cannot be saved."""
        return cls(
            spec,
            deadline.spent_env_steps + deadline.env_steps,
            deadline.spent_seconds + deadline.elapsed_seconds,
            _checkpointable(spec, learner).state_dict(),
            None if observation is None else observation.moments,
            None if reward is None else reward.state.moments,
        )

    def restore(
        self,
        learner: Learner,
        *,
        observation: ObservationNormalizer | None,
        reward: RewardNormalizer | None,
    ) -> None:
        """Put everything where `of` found it. Raises InputError where that does not fit."""
        try:
            _checkpointable(self.spec, learner).load_state_dict(self.learner)
        except (KeyError, RuntimeError, ValueError) as error:
            raise InputError(
                f"the checkpoint is of another network, optimizer or environment: {error}"
            ) from error
        if observation is not None and self.observation is not None:
            observation.moments = self.observation
        if reward is not None and self.reward is not None:
            # Episodes begin anew, and so do their returns.
            reward.state = RewardState(self.reward, 0.0 * reward.state.discounted_return)

    def learner_on(self, vec_env: VecEnv) -> tuple[Learner, ObservationNormalizer | None]:
        """The trained learner, to act, and the statistics by which to normalize what it sees;
        `vec_env` shows it the spaces. Raises InputError where these do not fit."""
        observation = None
        timer = PhaseTimer(MonotonicClock())
        if self.spec.env.normalize_observation:
            observation = ObservationNormalizer(vec_env.single_observation_space)
            vec_env = NormalizedVecEnv(vec_env, observation=observation, reward=None, timer=timer)
        learner = build_learner(self.spec.algorithm, vec_env, seed=self.spec.seed, timer=timer)
        self.restore(learner, observation=observation, reward=None)
        return learner, observation

    def save(self, path: Path) -> None:
        """Write it to `path`, in place of what is there. Raises InputError if that fails."""
        document = {
            "format": FORMAT,
            "spec": self.spec.model_dump_json(),
            "env_steps": self.env_steps,
            "elapsed_seconds": self.elapsed_seconds,
            "learner": self.learner,
            "observation": _packed(self.observation),
            "reward": _packed(self.reward),
        }
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with unfinished.open("wb") as file:
                torch.save(document, file)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise InputError(f"the checkpoint cannot be written: {error}") from error

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read it. Raises InputError, in one line, for what is not a checkpoint of ours."""
        try:
            path.open("rb").close()  # is_zipfile would hide why it cannot be read
            document = (
                torch.load(path, map_location="cpu", weights_only=True)
                if is_zipfile(path)
                else None
            )
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        except Exception as error:  # whatever torch makes of a damaged file
            raise InputError(f"{path}: not a checkpoint of sweeper, or damaged") from error
        if not isinstance(document, dict) or "format" not in document:
            raise InputError(f"{path}: not a checkpoint of sweeper")
        if document["format"] != FORMAT:
            raise InputError(
                f"{path}: written by another release (format {document['format']}, "
                f"this one reads {FORMAT})"
            )
        try:
            spec = TrialSpec.model_validate_json(document["spec"])
        except ValidationError as error:
            raise InputError(f"{path}: its trial is none of this release: {error}") from error
        return cls(
            spec,
            document["env_steps"],
            document["elapsed_seconds"],
            document["learner"],
            _unpacked(document["observation"]),
            _unpacked(document["reward"]),
        )


def _checkpointable(spec: TrialSpec, learner: Learner) -> Checkpointable:
    if isinstance(learner, Checkpointable):
        return learner
    raise InputError(
        f"a learner of kind {spec.algorithm.name} cannot be saved: it has no "
        "`state_dict` and `load_state_dict`"
    )


def _packed(moments: Moments | None) -> dict[str, Any] | None:
    if moments is None:
        return None
    # A scalar's moments are NumPy scalars, not arrays.
    mean, squares = (torch.from_numpy(np.asarray(x)) for x in (moments.mean, moments.squares))
    return {"count": moments.count, "mean": mean, "squares": squares}


def _unpacked(packed: dict[str, Any] | None) -> Moments | None:
    if packed is None:
        return None
    return Moments(packed["count"], packed["mean"].numpy(), packed["squares"].numpy())
