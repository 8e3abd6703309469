"""What a user writes under `trial.env`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sweeper.core.spec import Spec, as_tuple, invalid


class WrapperSpec(Spec):
    """A user's own wrapper, applied to every environment after the built-in ones."""

    wrapper: str = Field(pattern=r"^[\w.]+:[\w.]+$")
    """Dotted path `package.module:Name` of a `gymnasium.Wrapper` (or a function env -> env)."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments for it."""


class VectorSpec(Spec):
    """A native vector implementation of the environment, for `vec_env: gymnasium`."""

    make: str | None = Field(default=None, pattern=r"^(envpool|[\w.]+:[\w.]+)$")
    """`envpool`, or a function `package.module:name` that is called with `num_envs` and returns
    a `gymnasium.vector.VectorEnv`; by default the one that Gymnasium has registered for `id`."""
    kwargs: dict[str, Any] | None = None
    """Keyword arguments for it; those of the environment if left out."""


class EnvSpec(Spec):
    """Which environment, how it is wrapped, and what is normalized over all of its copies."""

    id: str | None = None
    """A registered Gymnasium id (`Hopper-v5`, `my_module:MyEnv-v0`)."""
    make: str | None = Field(default=None, pattern=r"^[\w.]+:[\w.]+$")
    """Or a function `package.module:make_env` that returns a new environment."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments for the environment or the function."""
    max_episode_steps: int | None = Field(default=None, ge=1)
    """Overrides the registered time limit."""
    action: Literal["clip", "rescale", "none"] = "clip"
    """Box actions: clipped to the bounds, or tanh-free rescaled from [-1, 1] to them."""
    wrappers: Annotated[tuple[WrapperSpec, ...], as_tuple] = ()
    """The user's own wrappers, innermost first."""
    vector: VectorSpec = VectorSpec()
    """What steps the environments when `parallelism.vec_env` is `gymnasium`."""
    normalize_observation: bool = False
    """Running mean and variance over all environments; frozen in evaluation."""
    normalize_reward: bool = False
    """Rewards divided by the running deviation of the discounted return."""
    step_timeout: float = Field(default=60.0, gt=0)
    """Seconds after which a step or reset counts as hung."""

    @model_validator(mode="after")
    def _one_source(self) -> EnvSpec:
        if (self.id is None) == (self.make is None):
            raise invalid("", "give exactly one of `id` and `make`")
        return self

    @property
    def name(self) -> str:
        """How the environment is called in tables and plots."""
        return self.id if self.id is not None else str(self.make)
