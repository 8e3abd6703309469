"""`TrialSpec`: one configuration, resolved; the `trial:` section of a study file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sweeper.core.clock import BudgetSpec
from sweeper.core.spec import Spec, invalid
from sweeper.envs.spec import EnvSpec
from sweeper.rl.foreign import CustomSpec, SB3PPOSpec
from sweeper.rl.spec import AlgorithmSpec, PPOSpec
from sweeper.trial.clash import batch_clash, workers_clash


class ParallelismSpec(Spec):
    """How environments are spread over processes and cores."""

    vec_env: Literal["serial", "subproc", "gymnasium"] = "subproc"
    """`serial` steps every environment in the learner's process; `subproc` in workers;
    `gymnasium` has them stepped by a native vector implementation (`env.vector`)."""
    n_envs: int = Field(default=8, ge=1, le=65_536)
    """Environments stepped together."""
    envs_per_worker: int | Literal["auto"] = "auto"
    """Environments in one worker process; `auto` shares them out, one worker a core."""
    start_method: Literal["forkserver", "spawn", "fork"] = "forkserver"
    """How workers are started; `fork` is unsafe from a process that has threads."""
    overlap: bool = False
    """Collect in two halves: the policy acts for one while the other steps. Needs 2 envs."""
    cores: int = Field(default=1, ge=1)
    """Cores reserved for the trial."""
    gpus: Annotated[float, Field(gt=0, le=1)] | Annotated[int, Field(ge=1)] | None = None
    """GPUs reserved for the trial, or a share of one; in a study it sees no others. null: 1 where
    `network.device` is `cuda` or `auto`, else none. With `auto` it goes without on a node that has
    none."""
    torch_threads: int = Field(default=1, ge=1)
    """Threads of torch and BLAS in the learner."""

    @property
    def resolved_envs_per_worker(self) -> int:
        """Environments a worker; all of them where there are none."""
        if self.vec_env != "subproc":
            return self.n_envs
        if self.envs_per_worker == "auto":
            return -(-self.n_envs // min(self.cores, self.n_envs))
        return self.envs_per_worker

    @property
    def n_workers(self) -> int:
        """Worker processes; 0 but for `subproc`."""
        return -(-self.n_envs // self.resolved_envs_per_worker) if self.vec_env == "subproc" else 0

    @model_validator(mode="after")
    def _fits(self) -> ParallelismSpec:
        clash = workers_clash(
            n_envs=self.n_envs, envs_per_worker=self.envs_per_worker, overlap=self.overlap
        )
        if clash:
            raise invalid(clash.path.removeprefix("parallelism."), clash.message)
        return self


class EvaluationSpec(Spec):
    """The policy at the deadline, on environments of its own, off the budget."""

    episodes: int = Field(default=20, ge=1, le=10_000)
    """Episodes of each kind of policy."""
    policy: Literal["deterministic", "stochastic"] = "deterministic"
    """Which of the two is the `final_return`; both are stored."""
    max_seconds: float = Field(default=60.0, gt=0)
    """Evaluation of each kind of policy stops here; an episode cut by it counts as truncated."""
    seed: int = Field(default=0, ge=0)
    """Seeds the episodes; all trials of a study share it, so that they face the same ones."""


class LimitsSpec(Spec):
    """What ends a trial that does not end by itself, as TIMEOUT."""

    setup_seconds: float = Field(default=300.0, gt=0)
    """Set-up (starting environments, their first reset, building the network) may take so long."""
    grace_seconds: float = Field(default=30.0, gt=0)
    """Training that is not over so long after its budget of seconds, or evaluation so long
    after `max_seconds` for each kind of policy, is killed with all its processes. More than
    one step of all environments or one minibatch takes."""


class TrialSpec(Spec):
    """Everything that determines a trial, up to its budget and seed."""

    env: EnvSpec
    """The environment."""
    algorithm: AlgorithmSpec
    """The learner and its hyperparameters."""
    parallelism: ParallelismSpec = ParallelismSpec()
    """Environments, processes, cores and GPUs."""
    budget: BudgetSpec
    """How long it trains."""
    evaluation: EvaluationSpec = EvaluationSpec()
    """How the result is measured."""
    limits: LimitsSpec = LimitsSpec()
    """What ends it if it does not end by itself."""
    seed: int = Field(default=0, ge=0)
    """Seeds the networks, the action noise and the environments."""

    @property
    def batch_size(self) -> int | None:
        """Transitions a rollout: n_envs x n_steps. None for a learner of the user's own."""
        if isinstance(self.algorithm, CustomSpec):
            return None
        return self.parallelism.n_envs * self.algorithm.n_steps

    @property
    def n_minibatches(self) -> int | None:
        """Minibatches an epoch; 1 for an algorithm that takes the rollout whole."""
        match self.algorithm:
            case CustomSpec():
                return None
            case PPOSpec(n_minibatches=n):
                return n
            case SB3PPOSpec(batch_size=size, n_steps=n_steps):
                return -(-self.parallelism.n_envs * n_steps // size)
            case _:
                return 1

    @property
    def minibatch_size(self) -> int | None:
        """Transitions a gradient step."""
        if isinstance(self.algorithm, SB3PPOSpec):
            return min(self.algorithm.batch_size, self.parallelism.n_envs * self.algorithm.n_steps)
        if self.batch_size is None or self.n_minibatches is None:
            return None
        return self.batch_size // self.n_minibatches

    @model_validator(mode="after")
    def _batch_divides(self) -> TrialSpec:
        algorithm = self.algorithm
        if isinstance(algorithm, CustomSpec):
            return self
        clash = batch_clash(
            n_envs=self.parallelism.n_envs,
            n_steps=algorithm.n_steps,
            n_minibatches=algorithm.n_minibatches if isinstance(algorithm, PPOSpec) else None,
            normalize_advantage=algorithm.normalize_advantage,
        )
        if clash:
            raise invalid(*clash)
        return self
