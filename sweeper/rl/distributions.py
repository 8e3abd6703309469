"""What an action is drawn from, one class a kind of action space.

Sampling takes its noise as an argument: `action = sample(outputs, noise)` is deterministic,
the noise of a whole rollout is drawn in one call, and zero noise gives the mode. It runs in
numpy, on whichever path the network runs. `log_prob` and `entropy` are torch, for autograd.

`outputs` [B, n_outputs] is what the policy network computes; `action` [B, n_actions] is
stored as drawn (Box actions are clipped or rescaled by the environment, never here).
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from sweeper.core.errors import InputError

F32 = NDArray[np.float32]
LOG_2PI = math.log(2.0 * math.pi)


class Distribution(Protocol):
    """A family of action distributions, over batches."""

    n_outputs: int
    """Width of the policy network's output."""
    n_actions: int
    """Numbers that make one action."""
    action_dtype: type[np.generic]
    has_log_std: bool
    """Whether a state-independent log standard deviation [n_actions] is learned as well."""

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> F32:
        """Noise [*shape, n_outputs] for `sample`."""
        ...

    def sample(self, outputs: F32, log_std: F32 | None, noise: F32 | None) -> NDArray[Any]:
        """Actions [B, n_actions]; without noise, the mode."""
        ...

    def to_env(self, action: NDArray[Any]) -> NDArray[Any]:
        """The same actions in the shape and offset of the action space, [B, ...]."""
        ...

    def log_prob(self, outputs: Tensor, log_std: Tensor | None, action: Tensor) -> Tensor:
        """Log-probability [B] of `action`, summed over its dimensions."""
        ...

    def entropy(self, outputs: Tensor, log_std: Tensor | None) -> Tensor:
        """Entropy [B], summed over dimensions."""
        ...


class DiagGaussian:
    """Box actions: independent normals; outputs are the means."""

    action_dtype: type[np.generic] = np.float32
    has_log_std = True

    def __init__(self, space: spaces.Box) -> None:
        self._shape = space.shape
        self.n_outputs = self.n_actions = int(np.prod(space.shape))

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> F32:
        """Standard normal."""
        return rng.standard_normal((*shape, self.n_outputs), dtype=np.float32)

    def sample(self, outputs: F32, log_std: F32 | None, noise: F32 | None) -> F32:
        """mean + std * noise."""
        assert log_std is not None
        if noise is None:
            return outputs.copy()
        action: F32 = np.exp(log_std) * noise
        action += outputs
        return action

    def to_env(self, action: NDArray[Any]) -> NDArray[Any]:
        """In the shape of the Box."""
        return action.reshape(len(action), *self._shape)

    def log_prob(self, outputs: Tensor, log_std: Tensor | None, action: Tensor) -> Tensor:
        """-(z^2 + log 2 pi) / 2 - log std, z = (action - mean) / std, summed."""
        assert log_std is not None
        z = (action - outputs) * torch.exp(-log_std)
        return -0.5 * (z.square() + LOG_2PI).sum(1) - log_std.sum()

    def entropy(self, outputs: Tensor, log_std: Tensor | None) -> Tensor:
        """log std + (1 + log 2 pi) / 2, summed; the same in every state."""
        assert log_std is not None
        return (log_std + 0.5 * (1.0 + LOG_2PI)).sum().expand(len(outputs))


class MultiCategorical:
    """Discrete and MultiDiscrete actions: one softmax a dimension, outputs are logits."""

    action_dtype: type[np.generic] = np.int64
    has_log_std = False

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete) -> None:
        sizes = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel()
        self.sizes = tuple(int(n) for n in sizes)
        self._start = np.asarray(space.start, dtype=np.int64)
        self._has_start = bool(np.any(self._start))
        self._shape = () if isinstance(space, spaces.Discrete) else space.nvec.shape
        self.n_outputs, self.n_actions = sum(self.sizes), len(self.sizes)
        ends = np.cumsum(self.sizes)
        self.slices = tuple(
            slice(int(e) - n, int(e)) for e, n in zip(ends, self.sizes, strict=True)
        )

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> F32:
        """Standard Gumbel: the argmax of logits + Gumbel noise is a draw from the softmax."""
        uniform = rng.random((*shape, self.n_outputs), dtype=np.float32)
        # random() may return exactly 0; the largest float32 below 1 keeps -log positive.
        np.clip(uniform, 1e-12, np.float32(1.0 - 2.0**-24), out=uniform)
        gumbel: F32 = -np.log(-np.log(uniform))
        return gumbel

    def sample(self, outputs: F32, log_std: F32 | None, noise: F32 | None) -> NDArray[np.int64]:
        """argmax of logits + noise, a dimension at a time."""
        del log_std
        scores = outputs if noise is None else outputs + noise
        if self.n_actions == 1:
            action: NDArray[np.int64] = scores.argmax(1)[:, None]
            return action
        return np.stack([scores[:, s].argmax(1) for s in self.slices], axis=1)

    def to_env(self, action: NDArray[Any]) -> NDArray[Any]:
        """In the shape of the space, from its `start`."""
        shaped = action.reshape(len(action), *self._shape)
        return shaped + self._start if self._has_start else shaped

    def log_prob(self, outputs: Tensor, log_std: Tensor | None, action: Tensor) -> Tensor:
        """Log-softmax at the action, summed over dimensions."""
        del log_std
        parts = [
            torch.log_softmax(outputs[:, s], 1).gather(1, action[:, i : i + 1])
            for i, s in enumerate(self.slices)
        ]
        return torch.cat(parts, 1).sum(1)

    def entropy(self, outputs: Tensor, log_std: Tensor | None) -> Tensor:
        """-sum p log p, summed over dimensions."""
        del log_std
        total = torch.zeros(len(outputs), dtype=outputs.dtype, device=outputs.device)
        for s in self.slices:
            log_p = torch.log_softmax(outputs[:, s], 1)
            total = total - (log_p.exp() * log_p).sum(1)
        return total


class Bernoulli:
    """MultiBinary actions: independent coins, outputs are log-odds."""

    action_dtype: type[np.generic] = np.int8
    has_log_std = False

    def __init__(self, space: spaces.MultiBinary) -> None:
        self._shape = space.shape
        self.n_outputs = self.n_actions = int(np.prod(space.shape))

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> F32:
        """Standard logistic: log-odds + noise > 0 is a draw."""
        uniform = rng.random((*shape, self.n_outputs), dtype=np.float32)
        np.clip(uniform, 1e-7, np.float32(1.0 - 1e-7), out=uniform)
        logistic: F32 = np.log(uniform) - np.log1p(-uniform)
        return logistic

    def sample(self, outputs: F32, log_std: F32 | None, noise: F32 | None) -> NDArray[np.int8]:
        """log-odds + noise > 0."""
        del log_std
        scores = outputs if noise is None else outputs + noise
        return (scores > 0).astype(np.int8)

    def to_env(self, action: NDArray[Any]) -> NDArray[Any]:
        """In the shape of the space."""
        return action.reshape(len(action), *self._shape)

    def log_prob(self, outputs: Tensor, log_std: Tensor | None, action: Tensor) -> Tensor:
        """log sigmoid(+-log-odds), summed."""
        del log_std
        return torch.nn.functional.logsigmoid((2.0 * action - 1.0) * outputs).sum(1)

    def entropy(self, outputs: Tensor, log_std: Tensor | None) -> Tensor:
        """Of each coin, summed."""
        del log_std
        p = torch.sigmoid(outputs)
        log_p, log_q = (torch.nn.functional.logsigmoid(s * outputs) for s in (1.0, -1.0))
        return -(p * log_p + (1.0 - p) * log_q).sum(1)


def distribution_for(space: gymnasium.Space[Any]) -> Distribution:
    """The family for an action space; InputError names a space that has none."""
    match space:
        case spaces.Box():
            return DiagGaussian(space)
        case spaces.Discrete() | spaces.MultiDiscrete():
            return MultiCategorical(space)
        case spaces.MultiBinary():
            return Bernoulli(space)
        case _:
            raise InputError(
                f"{type(space).__name__} actions are not supported; "
                "Box, Discrete, MultiDiscrete and MultiBinary are"
            )
