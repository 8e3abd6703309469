"""What `queries` returns: frozen rows, their fields named as the columns they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sweeper.core.records import HostRecord

ParamValue = float | int | str | bool | None


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A study at a glance."""

    study_id: int
    name: str
    created_at: datetime
    version: int
    """Number of its latest version."""
    objectives: Mapping[str, str]
    """Metric -> "maximize" | "minimize", in the order of the study file."""
    constraints: Mapping[str, Mapping[str, float]]
    """Metric -> {"min": x} and/or {"max": x}."""
    budget_seconds: float | None
    budget_env_steps: int | None
    spec_yaml: str
    target_trials: int | None
    """`stop.trials` of the latest launch; None when only hours bound it."""
    status_counts: Mapping[str, int]
    """Trial status -> number of trials."""
    last_event_at: datetime | None
    env: str
    """Environment of the study's trials, as `EnvSpec.name`."""
    untrained_return: float | None = None
    """What a policy that was not trained returns; None until it is measured."""

    @property
    def n_trials(self) -> int:
        """Trials of any status."""
        return sum(self.status_counts.values())


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A configuration with the mean of its completed runs (the view `trial_results`)."""

    trial_id: int
    study_id: int
    number: int
    origin: str
    sampler: str | None
    status: str
    feasible: bool | None
    """Whether it may stand on the front; None until it is known."""
    asked_at: datetime
    ended_at: datetime | None
    """When its last run ended."""
    budget_seconds: float | None
    budget_env_steps: int | None
    config_json: str
    params: Mapping[str, ParamValue]
    """Searched parameter (dotted path) -> value."""
    n_runs: int
    """Completed runs."""
    reason: str | None
    """First line of why the last run is not COMPLETED."""
    algorithm: str
    optimizer: str | None
    schedule: str | None
    learning_rate: float | None
    vec_env: str
    n_envs: int
    envs_per_worker: int
    n_workers: int
    cores: int
    torch_threads: int
    n_steps: int | None
    n_minibatches: int | None
    n_epochs: int | None
    batch_size: int | None
    minibatch_size: int | None
    gamma: float | None
    gae_lambda: float | None
    clip_range: float | None
    entropy_coef: float | None
    final_return: float | None
    final_return_stochastic: float | None
    training_return: float | None
    steps_per_second: float | None
    seconds_to_threshold: float | None
    return_area: float | None
    env_steps: float | None
    updates: float | None
    core_seconds: float | None
    elapsed_seconds: float | None
    cpu_utilization: float | None
    peak_rss_bytes: float | None
    inference_seconds: float | None
    env_wait_seconds: float | None
    rollout_seconds: float | None
    update_seconds: float | None
    contended: bool | None
    """Whether others took so much of its cores in every run that its speed is fiction."""
    bottleneck: str | None
    """What limited its last run."""
    advice: str | None
    n_test_runs: int
    """Completed runs with test seeds; the metrics above are of tuning seeds alone."""
    test_final_return: float | None
    test_steps_per_second: float | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """One attempt at a trial with one seed: the columns of `runs`."""

    run_id: int
    trial_id: int
    kind: str
    attempt: int
    seed: int
    seed_kind: str
    hostname: str | None
    budget_seconds: float | None
    budget_env_steps: int | None
    status: str
    reason: str | None
    started_at: datetime | None
    ended_at: datetime | None
    setup_seconds: float | None
    elapsed_seconds: float | None
    overshoot_seconds: float | None
    env_steps: int | None
    episodes: int | None
    updates: int | None
    steps_per_second: float | None
    final_return: float | None
    final_return_stochastic: float | None
    training_return: float | None
    seconds_to_threshold: float | None
    return_area: float | None
    rollout_seconds: float | None
    inference_seconds: float | None
    env_wait_seconds: float | None
    update_seconds: float | None
    optimizer_seconds: float | None
    normalize_seconds: float | None
    other_seconds: float | None
    evaluate_seconds: float | None
    cpu_seconds: float | None
    core_seconds: float | None
    cpu_utilization: float | None
    worker_busy_share: float | None
    foreign_cpu_share: float | None
    gpu_utilization: float | None
    gpu_memory_bytes: int | None
    involuntary_switches: int | None
    peak_rss_bytes: int | None
    leased_cores: str | None
    contended: bool | None
    rung: int | None
    bottleneck: str | None
    advice: str | None


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A run of a study, as far as a picture of the whole study needs it."""

    run_id: int
    trial_id: int
    number: int
    """Its trial's."""
    kind: str
    seed_kind: str
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    hostname: str | None
    hardware_class: str | None
    leased_cores: str | None
    final_return: float | None
    final_return_stochastic: float | None
    training_return: float | None
    steps_per_second: float | None
    seconds_to_threshold: float | None
    return_area: float | None
    env_steps: int | None
    updates: int | None
    core_seconds: float | None
    elapsed_seconds: float | None
    cpu_utilization: float | None
    peak_rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A measurement of some run, as far as a curve needs it."""

    run_id: int
    trial_id: int
    seed_kind: str
    elapsed_seconds: float
    env_steps: int
    training_return: float
    steps_per_second: float | None


@dataclass(frozen=True, slots=True)
class ImportanceRow:
    """How much a parameter mattered to an objective: the columns of `importances`."""

    at: datetime
    objective: str
    path: str
    importance: float


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """The last attempt at a run: of a trial, with one seed, on one budget."""

    run_id: int
    trial_id: int
    number: int
    """Its trial's."""
    seed_kind: str
    seed: int
    budget_seconds: float | None
    budget_env_steps: int | None
    attempt: int
    """Its number, counted over all budgets on which the seed was run."""
    n_attempts: int
    """Attempts on this budget so far."""
    status: str
    is_asked: bool
    """Whether `sweeper retry` asked for another one."""


@dataclass(frozen=True, slots=True)
class LauncherRow:
    """The launcher that holds a study, dead or alive: the columns of `launchers`."""

    launcher_id: str
    host: str
    pid: int
    pid_started_at: datetime | None
    acquired_at: datetime
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """A point of a learning curve: the columns of `measurements`, fields as in
    `sweeper.core.records.Measurement`."""

    run_id: int
    elapsed_seconds: float
    progress: float
    env_steps: int
    updates: int
    episodes: int
    training_return: float | None
    episode_length: float | None
    steps_per_second: float
    learning_rate: float
    approx_kl: float | None
    clip_fraction: float | None
    entropy: float | None
    policy_loss: float | None
    value_loss: float | None
    explained_variance: float | None
    grad_norm: float | None
    kfac_nu: float | None
    cpu_utilization: float | None
    rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class RungRow:
    """Where a run of a trial stood at some share of its budget."""

    number: int
    """Its trial's."""
    seed: int
    progress: float
    training_return: float
    steps_per_second: float


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One evaluation episode: the columns of `evaluations`."""

    run_id: int
    episode: int
    seed: int
    deterministic: bool
    episode_return: float
    length: int
    truncated: bool


Stop = Literal["stop", "stop_now"]
"""Events that ask a launcher to end: as the first Ctrl-C does, or as the second."""
RETRY = "retry"
"""The event that asks the next launch for another attempt at a run."""
LOG = "log"
"""The event that says where a launcher writes what it says: `host:path`."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """Who did what when: the columns of `events`."""

    event_id: int
    at: datetime
    study_id: int | None
    trial_id: int | None
    run_id: int | None
    kind: str
    detail: str | None


@dataclass(frozen=True, slots=True)
class HostRow(HostRecord):
    """A machine that runs have used: the columns of `hosts`."""

    host_id: int
