"""What a user writes under `trial.algorithm`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from sweeper.core.spec import Sizes, Spec, as_tuple, invalid
from sweeper.optim.spec import (
    AdamSpec,
    ConstantSchedule,
    KFACSpec,
    OptimizerSpec,
    RMSpropSpec,
    ScheduleSpec,
)
from sweeper.rl.foreign import EXAMPLE, CustomSpec, SB3A2CSpec, SB3PPOSpec


class _Network(Spec):
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Where the network acts and learns; `auto` is `cuda` where there is a device, else `cpu`."""
    precision: Literal["float32", "bf16"] = "float32"
    """`bf16` multiplies in bfloat16 (torch's autocast); weights and losses stay float32."""


class MLPSpec(_Network):
    """Fully connected layers, for flat observations."""

    kind: Literal["mlp"] = "mlp"
    hidden: Sizes = Field(default=(64, 64), min_length=1, max_length=8)
    """Units of each hidden layer, first to last."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Nonlinearity after each hidden layer."""
    shared: bool = False
    """Whether policy and value have all layers but their heads in common."""
    gradient: Literal["derived", "autograd"] = "derived"
    """`derived` runs the written-out gradient in numpy (several times faster at these sizes);
    `autograd` runs torch's, as do CUDA devices and `bf16`. They agree to rounding."""


class ConvolutionSpec(Spec):
    """A convolution without padding, and a ReLU."""

    filters: int = Field(ge=1)
    """Channels that it makes."""
    kernel: int = Field(ge=1)
    """Height and width, in pixels, that each filter sees."""
    stride: int = Field(default=1, ge=1)
    """Pixels from one place that it sees to the next."""


class _Convolutional(_Network):
    shared: bool = True
    """Whether policy and value have all layers but their heads in common."""


class CNNSpec(_Convolutional):
    """Convolutions, then fully connected layers, ReLU after each, for images. The defaults are
    the network of Mnih et al. 2015 (Nature 518)."""

    kind: Literal["cnn"]
    convolutions: Annotated[tuple[ConvolutionSpec, ...], as_tuple] = Field(
        default=(
            ConvolutionSpec(filters=32, kernel=8, stride=4),
            ConvolutionSpec(filters=64, kernel=4, stride=2),
            ConvolutionSpec(filters=64, kernel=3, stride=1),
        ),
        min_length=1,
        max_length=8,
    )
    """First to last: `{filters, kernel, stride}` each."""
    hidden: Sizes = Field(default=(512,), min_length=1, max_length=8)
    """Units of each fully connected layer that follows."""


class IMPALASpec(_Convolutional):
    """Residual convolutions, then fully connected layers, for images. The defaults are the larger
    network of Espeholt et al. 2018 (arXiv:1802.01561, figure 3), without its LSTM."""

    kind: Literal["impala"]
    channels: Sizes = Field(default=(16, 32, 32), min_length=1, max_length=8)
    """Of each stage, first to last: a convolution, pooling that halves the image, and two
    residual blocks. A network k times as wide has k times these."""
    hidden: Sizes = Field(default=(256,), min_length=1, max_length=8)
    """Units of each fully connected layer that follows."""


ConvolutionalSpec = CNNSpec | IMPALASpec


def _mlp_by_default(value: object) -> object:
    return {"kind": "mlp", **value} if isinstance(value, dict) and "kind" not in value else value


NetworkSpec = Annotated[
    MLPSpec | CNNSpec | IMPALASpec,
    Field(discriminator="kind"),
    BeforeValidator(_mlp_by_default),
]


class _ActorCritic(Spec):
    kind: str
    n_steps: int = Field(ge=1, le=1_000_000)
    """Steps of each environment in a rollout."""
    gamma: float = Field(default=0.99, gt=0, le=1)
    """Discount."""
    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    """Generalized advantage estimation's lambda; 1 gives n-step returns."""
    entropy_coef: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    value_coef: float = Field(default=0.5, ge=0)
    """Weight of the value loss."""
    max_grad_norm: float | None = Field(default=0.5, gt=0)
    """Global gradient norm is clipped to this; null leaves it alone."""
    normalize_advantage: bool = True
    """To mean 0 and deviation 1, within each minibatch."""
    network: NetworkSpec = MLPSpec()
    """Policy and value network."""

    @property
    def name(self) -> str:
        """What results call the algorithm."""
        return self.kind


class PPOSpec(_ActorCritic):
    """Proximal policy optimization, clipped (Schulman et al. 2017)."""

    kind: Literal["ppo"] = "ppo"
    n_steps: int = Field(default=2048, ge=1, le=1_000_000)
    """Steps of each environment in a rollout."""
    n_minibatches: int = Field(default=32, ge=1)
    """Minibatches an epoch; must divide n_envs x n_steps."""
    n_epochs: int = Field(default=10, ge=1, le=1000)
    """Passes over each rollout."""
    clip_range: float = Field(default=0.2, gt=0)
    """How far the probability ratio may move from 1."""
    clip_range_schedule: ScheduleSpec = ConstantSchedule()
    """How the clip range follows progress through the budget."""
    clip_range_value: float | None = Field(default=None, gt=0)
    """Clips the value's change as well; null does not."""
    target_kl: float | None = Field(default=None, gt=0)
    """An update stops early once approximate KL passes 1.5 x this; null never stops."""
    optimizer: OptimizerSpec = AdamSpec()
    """What turns gradients into steps."""


class A2CSpec(_ActorCritic):
    """Advantage actor-critic (Mnih et al. 2016), synchronous: one gradient a rollout."""

    kind: Literal["a2c"] = "a2c"
    n_steps: int = Field(default=5, ge=1, le=1_000_000)
    """Steps of each environment in a rollout."""
    gae_lambda: float = Field(default=1.0, ge=0, le=1)
    """Generalized advantage estimation's lambda; 1 gives n-step returns."""
    entropy_coef: float = Field(default=0.01, ge=0)
    """Weight of the entropy bonus."""
    normalize_advantage: bool = False
    """To mean 0 and deviation 1, over the rollout."""
    optimizer: OptimizerSpec = RMSpropSpec(learning_rate=7e-4)
    """What turns gradients into steps; `kfac` makes it ACKTR."""

    @property
    def name(self) -> str:
        """`acktr` under K-FAC, which is what that is."""
        return "acktr" if isinstance(self.optimizer, KFACSpec) else self.kind


class ACKTRSpec(_ActorCritic):
    """A2C's loss under K-FAC in a trust region (Wu et al. 2017)."""

    kind: Literal["acktr"] = "acktr"
    n_steps: int = Field(default=20, ge=1, le=1_000_000)
    """Steps of each environment in a rollout."""
    gae_lambda: float = Field(default=1.0, ge=0, le=1)
    """Generalized advantage estimation's lambda; 1 gives n-step returns."""
    entropy_coef: float = Field(default=0.01, ge=0)
    """Weight of the entropy bonus."""
    normalize_advantage: bool = False
    """To mean 0 and deviation 1, over the rollout."""
    optimizer: OptimizerSpec = KFACSpec()
    """Must be `kfac`; other optimizers of the same loss are `a2c`."""

    @model_validator(mode="after")
    def _is_under_kfac(self) -> ACKTRSpec:
        if message := optimizer_complaint(self.kind, self.optimizer.kind):
            raise invalid("optimizer.kind", message)
        return self


def optimizer_complaint(algorithm: str, optimizer: str) -> str | None:
    """Why an algorithm of this kind is not one under an optimizer of that kind."""
    if algorithm != "acktr" or optimizer == "kfac":
        return None
    return (
        f"must be kfac under acktr, got {optimizer}; "
        f"{optimizer} on the same loss is `algorithm.kind: a2c`"
    )


ActorCriticSpec = PPOSpec | A2CSpec | ACKTRSpec


def _kind(value: Any) -> Any:
    """Which of the specs below; a dotted path of any learner is one of the user's own."""
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return EXAMPLE if isinstance(kind, str) and ":" in kind else kind


AlgorithmSpec = Annotated[
    Annotated[PPOSpec, Tag("ppo")]
    | Annotated[A2CSpec, Tag("a2c")]
    | Annotated[ACKTRSpec, Tag("acktr")]
    | Annotated[SB3PPOSpec, Tag("sb3")]
    | Annotated[SB3A2CSpec, Tag("sb3_a2c")]
    | Annotated[CustomSpec, Tag(EXAMPLE)],
    Discriminator(_kind),
]
