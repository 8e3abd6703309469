"""`TrialSpec`: one configuration, resolved; the `trial:` section of a study file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sweeper.core.clock import BudgetSpec
from sweeper.core.spec import Spec, invalid
from sweeper.envs.spec import EnvSpec
from sweeper.rl.spec import AlgorithmSpec, PPOSpec


class ParallelismSpec(Spec):
    """How environments are spread over processes and cores."""

    vec_env: Literal["serial", "subproc"] = "subproc"
    """`serial` steps every environment in the learner's process; `subproc` in workers."""
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
    torch_threads: int = Field(default=1, ge=1)
    """Threads of torch and BLAS in the learner."""

    @property
    def resolved_envs_per_worker(self) -> int:
        """Environments a worker; all of them for `serial`."""
        if self.vec_env == "serial":
            return self.n_envs
        if self.envs_per_worker == "auto":
            return -(-self.n_envs // min(self.cores, self.n_envs))
        return self.envs_per_worker

    @property
    def n_workers(self) -> int:
        """Worker processes; 0 for `serial`."""
        return 0 if self.vec_env == "serial" else -(-self.n_envs // self.resolved_envs_per_worker)

    @model_validator(mode="after")
    def _fits(self) -> ParallelismSpec:
        per = self.envs_per_worker
        if per != "auto" and not 1 <= per <= self.n_envs:
            raise invalid(
                "envs_per_worker",
                f"must be `auto` or 1 to n_envs = {self.n_envs}, got {per}",
            )
        if self.overlap and self.n_envs < 2:
            raise invalid("overlap", "needs at least 2 envs to make two halves")
        return self


class EvaluationSpec(Spec):
    """The policy at the deadline, on environments of its own, off the budget."""

    episodes: int = Field(default=20, ge=1, le=10_000)
    """Episodes of each kind of policy."""
    policy: Literal["deterministic", "stochastic"] = "deterministic"
    """Which of the two is the `final_return`; both are stored."""
    max_seconds: float = Field(default=60.0, gt=0)
    """Evaluation stops here; episodes finished by then count."""


class TrialSpec(Spec):
    """Everything that determines a trial, up to its budget and seed."""

    env: EnvSpec
    """The environment."""
    algorithm: AlgorithmSpec
    """The learner and its hyperparameters."""
    parallelism: ParallelismSpec = ParallelismSpec()
    """Environments, processes and cores."""
    budget: BudgetSpec
    """How long it trains."""
    evaluation: EvaluationSpec = EvaluationSpec()
    """How the result is measured."""
    setup_timeout: float = Field(default=120.0, gt=0)
    """Seconds that starting and resetting the environments may take."""
    seed: int = Field(default=0, ge=0)
    """Seeds the networks, the action noise and the environments."""

    @property
    def batch_size(self) -> int:
        """Transitions a rollout: n_envs x n_steps."""
        return self.parallelism.n_envs * self.algorithm.n_steps

    @property
    def minibatch_size(self) -> int:
        """Transitions a gradient step."""
        if isinstance(self.algorithm, PPOSpec):
            return self.batch_size // self.algorithm.n_minibatches
        return self.batch_size

    @model_validator(mode="after")
    def _batch_divides(self) -> TrialSpec:
        algorithm, batch = self.algorithm, self.batch_size
        size = f"n_envs x n_steps = {self.parallelism.n_envs} x {algorithm.n_steps} = {batch}"
        if isinstance(algorithm, PPOSpec) and batch % algorithm.n_minibatches:
            raise invalid(
                "algorithm.n_minibatches",
                f"must divide the batch, {size}, got {algorithm.n_minibatches}",
            )
        if algorithm.normalize_advantage and self.minibatch_size < 2:
            raise invalid(
                "algorithm.n_minibatches" if isinstance(algorithm, PPOSpec) else "algorithm.n_steps",
                f"leaves minibatches of 1, whose advantage cannot be normalized ({size})",
            )
        return self
