"""Specs of learners that are not ours: Stable-Baselines3's, and the user's own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from sweeper.core.spec import Sizes, Spec, invalid
from sweeper.optim.spec import ConstantSchedule, ScheduleSpec

EXAMPLE = "my_module:MyLearner"
"""How the kind of a learner of the user's own is written."""


class ForeignSpec(Spec):
    """Shares no key but `kind` with other algorithms, whatever its keys are called."""

    kind: str

    @property
    def name(self) -> str:
        """What results call the algorithm."""
        return self.kind


class SB3Spec(ForeignSpec):
    """What Stable-Baselines3's algorithms have in common, under its names."""

    n_steps: int = Field(ge=1, le=1_000_000)
    """Steps of each environment in a rollout."""
    learning_rate: float = Field(gt=0)
    """Of the optimizer, at progress 0."""
    learning_rate_schedule: ScheduleSpec = ConstantSchedule()
    """How it follows progress through the budget."""
    gamma: float = Field(default=0.99, gt=0, le=1)
    """Discount."""
    gae_lambda: float = Field(ge=0, le=1)
    """Generalized advantage estimation's lambda; 1 gives n-step returns."""
    normalize_advantage: bool
    """To mean 0 and deviation 1, within each minibatch."""
    ent_coef: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    vf_coef: float = Field(default=0.5, ge=0)
    """Weight of the value loss, a whole mean square: twice that of `value_coef`."""
    max_grad_norm: float = Field(default=0.5, gt=0)
    """Global gradient norm is clipped to this."""
    net_arch: Sizes = Field(default=(64, 64), max_length=8)
    """Units of each hidden layer, in the policy and in the value network."""
    activation_fn: Literal["tanh", "relu", "elu", "leaky_relu"] = "tanh"
    """Nonlinearity after each hidden layer."""
    ortho_init: bool = True
    """Orthogonal initial weights."""


class SB3PPOSpec(SB3Spec):
    """Stable-Baselines3's own PPO, with its names and defaults, under our budget and measuring
    (`pip install 'sweeper[sb3]'`)."""

    kind: Literal["sb3"] = "sb3"
    n_steps: int = Field(default=2048, ge=1, le=1_000_000)
    """Steps of each environment in a rollout."""
    learning_rate: float = Field(default=3e-4, gt=0)
    """Adam's, at progress 0."""
    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    """Generalized advantage estimation's lambda; 1 gives n-step returns."""
    normalize_advantage: bool = True
    """To mean 0 and deviation 1, within each minibatch."""
    batch_size: int = Field(default=64, ge=2)
    """Transitions a minibatch; the last one of an epoch may be smaller."""
    n_epochs: int = Field(default=10, ge=1, le=1000)
    """Passes over each rollout."""
    clip_range: float = Field(default=0.2, gt=0)
    """How far the probability ratio may move from 1."""
    clip_range_vf: float | None = Field(default=None, gt=0)
    """Clips the value's change as well; null does not."""
    target_kl: float | None = Field(default=None, gt=0)
    """An update stops early once approximate KL passes 1.5 x this; null never stops."""


class SB3A2CSpec(SB3Spec):
    """Stable-Baselines3's own A2C, in the same way."""

    kind: Literal["sb3_a2c"] = "sb3_a2c"
    n_steps: int = Field(default=5, ge=1, le=1_000_000)
    """Steps of each environment in a rollout."""
    learning_rate: float = Field(default=7e-4, gt=0)
    """Of the optimizer, at progress 0."""
    gae_lambda: float = Field(default=1.0, ge=0, le=1)
    """Generalized advantage estimation's lambda; 1 gives n-step returns."""
    normalize_advantage: bool = False
    """To mean 0 and deviation 1, over the rollout."""
    use_rms_prop: bool = True
    """RMSprop (alpha 0.99); else Adam (eps 1e-5)."""
    rms_prop_eps: float = Field(default=1e-5, gt=0)
    """Added to RMSprop's denominator."""


class CustomSpec(ForeignSpec):
    """A learner of your own, by its class. Every other key is a parameter of it, and is checked
    by its `Spec` if it has one (docs/learners.md)."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field(pattern=r"^[\w.]+:[\w.]+$", examples=[EXAMPLE])
    """Dotted path `package.module:Name` of its class."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The other keys, as they were given."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _is_finite(self) -> CustomSpec:
        for path in _not_finite(self.parameters):
            raise invalid(".".join(map(str, path)), "must be a finite number")
        return self


def _not_finite(value: object) -> Iterator[tuple[str | int, ...]]:
    """Paths to every NaN and infinity."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield ()
        return
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, list | tuple):
        items = list(enumerate(value))
    for key, item in items:
        yield from ((key, *rest) for rest in _not_finite(item))
