"""What a user writes under `trial.algorithm.optimizer`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeper.core.spec import Spec

Fraction = Annotated[float, Field(ge=0, le=1)]


class ConstantSchedule(Spec):
    """Multiplier 1 throughout."""

    kind: Literal["constant"] = "constant"


class LinearSchedule(Spec):
    """From 1 down to `final`, in a straight line."""

    kind: Literal["linear"] = "linear"
    final: Fraction = 0.0
    """Multiplier at the end of the budget."""


class CosineSchedule(Spec):
    """From 1 down to `final` along half a cosine."""

    kind: Literal["cosine"] = "cosine"
    final: Fraction = 0.0
    """Multiplier at the end of the budget."""


class WarmupCosineSchedule(Spec):
    """Up from 0 to 1 in a straight line, then down to `final` along half a cosine."""

    kind: Literal["warmup_cosine"] = "warmup_cosine"
    warmup: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the budget spent warming up."""
    final: Fraction = 0.0
    """Multiplier at the end of the budget."""


class MiddleDropSchedule(Spec):
    """1 until `at`, then `factor`."""

    kind: Literal["middle_drop"] = "middle_drop"
    at: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Progress at which the drop happens."""
    factor: Fraction = 0.1
    """Multiplier after it."""


class DoubleLinearSchedule(Spec):
    """Two straight lines: from 1 to `middle` at progress `at`, then to 0."""

    kind: Literal["double_linear"] = "double_linear"
    at: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Progress at which the lines meet."""
    middle: Fraction = 0.1
    """Multiplier where they meet."""


ScheduleSpec = Annotated[
    ConstantSchedule
    | LinearSchedule
    | CosineSchedule
    | WarmupCosineSchedule
    | MiddleDropSchedule
    | DoubleLinearSchedule,
    Field(discriminator="kind"),
]


class _Optimizer(Spec):
    learning_rate: float = Field(default=3e-4, gt=0, le=10)
    """Rate at progress 0; the schedule multiplies it."""
    schedule: ScheduleSpec = ConstantSchedule()
    """How the rate follows progress through the budget."""


class AdamSpec(_Optimizer):
    """Adam (Kingma & Ba 2015)."""

    kind: Literal["adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the gradient's running mean."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of its running square."""
    eps: float = Field(default=1e-5, gt=0)
    """Added to the denominator; 1e-5 as in Baselines."""


class AdamWSpec(_Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the gradient's running mean."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of its running square."""
    eps: float = Field(default=1e-5, gt=0)
    """Added to the denominator."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay, times the learning rate."""


class RMSpropSpec(_Optimizer):
    """RMSprop (Tieleman & Hinton 2012)."""

    kind: Literal["rmsprop"] = "rmsprop"
    alpha: float = Field(default=0.99, ge=0, lt=1)
    """Decay of the gradient's running square."""
    eps: float = Field(default=1e-5, gt=0)
    """Added to the denominator."""


class SGDSpec(_Optimizer):
    """Stochastic gradient descent with momentum."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the velocity; 0 is plain gradient descent."""


class MuonSpec(_Optimizer):
    """Momentum made orthogonal for the matrices of layers below the heads (Jordan et al. 2024), in
    steps as long as AdamW's (Liu et al. 2025); AdamW for everything else."""

    kind: Literal["muon"] = "muon"
    momentum: float = Field(default=0.95, ge=0, lt=1)
    """Decay of the matrices' velocity."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """AdamW's decay of the gradient's running mean."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """AdamW's decay of its running square."""
    eps: float = Field(default=1e-5, gt=0)
    """Added to AdamW's denominator."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled decay of all weights, times the learning rate."""


class KFACSpec(_Optimizer):
    """Natural gradient, Kronecker-factored, in a trust region (Martens & Grosse 2015)."""

    kind: Literal["kfac"] = "kfac"
    learning_rate: float = Field(default=0.25, gt=0, le=10)
    """Rate at progress 0; the schedule multiplies it, and the trust region bounds the step."""
    schedule: ScheduleSpec = LinearSchedule()
    """How the rate follows progress through the budget."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the velocity; a step adds 1 - momentum of itself to it."""
    clip_kl: float = Field(default=1e-3, gt=0)
    """Bound on a step's quadratic form in the damped Fisher matrix: about twice its KL."""
    damping: float = Field(default=0.01, gt=0)
    """Added to the Fisher matrix before it is inverted."""
    factored_damping: bool = False
    """Share the damping out between the two factors, by the ratio of their mean eigenvalues."""
    stats_decay: float = Field(default=0.99, ge=0, lt=1)
    """Decay of the factors' running averages."""
    stats_accum_iter: int = Field(default=10, ge=1)
    """The first so many batches of statistics are averaged with equal weights."""
    kfac_update: int = Field(default=1, ge=1)
    """Steps between two decompositions of the factors."""
    cold_iter: int = Field(default=10, ge=0)
    """The first so many steps follow the plain gradient, in the same trust region."""
    value_fisher_coef: float = Field(default=1.0, gt=0)
    """Weight of the value network in the Fisher matrix; the policy's is 1."""


OptimizerSpec = Annotated[
    AdamSpec | AdamWSpec | RMSpropSpec | SGDSpec | MuonSpec | KFACSpec,
    Field(discriminator="kind"),
]
