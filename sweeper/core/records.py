"""What a trial says while it runs, and what it leaves behind.

`run_trial` yields these, executors carry them, the store writes them. Durations are seconds
of a monotonic clock; a quantity that was not or could not be measured is None, never NaN.
The meaning of each number is docs/measuring.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RunStatus(StrEnum):
    """The life of a run (one attempt at a trial with one seed)."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    """Reached its budget."""
    PRUNED = "PRUNED"
    DIVERGED = "DIVERGED"
    """NaN or infinity in observations, loss or parameters."""
    ERROR = "ERROR"
    """An exception, in the environment or in ours; the reason carries it."""
    TIMEOUT = "TIMEOUT"
    """Killed by the watchdog, or over the set-up or step limit."""
    OOM = "OOM"
    LOST = "LOST"
    """Its process, node or launcher died under it."""
    INTERRUPTED = "INTERRUPTED"
    """Asked to stop before its budget was spent."""

    @property
    def is_final(self) -> bool:
        """Whether a run in this status will never change again."""
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING)

    @property
    def is_retried(self) -> bool:
        """Whether the attempt says nothing about the configuration, so another is made."""
        return self in (RunStatus.LOST, RunStatus.INTERRUPTED, RunStatus.OOM)


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The machine and the versions that a run was measured on. Two runs share a host only
    when all of it is equal, so an upgrade of torch is a new host.
    """

    hostname: str
    hardware_class: str
    """Machines of one class are interchangeable for speed, e.g. "Xeon 8481C x 8"."""
    cpu_model: str
    usable_cores: int
    """Physical cores within this process's affinity mask and cgroup quota."""
    memory_bytes: int
    gpu_model: str | None
    os: str
    python: str
    torch: str
    gymnasium: str
    sweeper: str


@dataclass(frozen=True, slots=True)
class WaitingForCores:
    """Set-up cannot begin: others hold the cores. Yielded again when the holders change."""

    reason: str
    """How many are wanted and free, and who holds the others; one line."""


@dataclass(frozen=True, slots=True)
class TrainingStarted:
    """Set-up is over and the budget begins to run."""

    setup_seconds: float
    n_workers: int
    """Environment processes; 0 when the envs are stepped by the learner's own."""
    host: HostRecord
    untrained_return: float | None = None
    """Mean evaluation return of the policy before any training, where that was asked for."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The state of training after an update. Every figure covers the time since the last
    measurement unless it says otherwise.
    """

    elapsed_seconds: float
    """Training seconds since the budget began (set-up and evaluation are off it)."""
    progress: float
    """Share of the budget spent, in [0, 1]; what the schedules saw."""
    env_steps: int
    updates: int
    episodes: int
    """Training episodes finished so far."""
    training_return: float | None
    """Mean undiscounted return of the last 100 training episodes."""
    episode_length: float | None
    """Mean length of the same episodes, in env steps."""
    steps_per_second: float
    """Env steps / elapsed seconds, since the budget began."""
    learning_rate: float | None = None
    approx_kl: float | None = None
    clip_fraction: float | None = None
    entropy: float | None = None
    policy_loss: float | None = None
    value_loss: float | None = None
    explained_variance: float | None = None
    grad_norm: float | None = None
    """Global gradient norm before clipping, mean over minibatches."""
    kfac_nu: float | None = None
    cpu_utilization: float | None = None
    """CPU seconds of the trial's processes / (elapsed seconds x cores)."""
    rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation episode of the policy as it stood at the deadline."""

    episode: int
    seed: int
    deterministic: bool
    episode_return: float
    """Undiscounted and un-normalized."""
    length: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class PhaseSeconds:
    """Where the budget went. The leaves sum to the elapsed seconds:
    inference + env_wait + bookkeeping + gradient + optimizer + normalize + other.
    """

    inference: float = 0.0
    env_wait: float = 0.0
    bookkeeping: float = 0.0
    gradient: float = 0.0
    optimizer: float = 0.0
    normalize: float = 0.0
    other: float = 0.0

    @property
    def rollout(self) -> float:
        """Collecting: inference, waiting for environments, bookkeeping."""
        return self.inference + self.env_wait + self.bookkeeping

    @property
    def update(self) -> float:
        """Learning: gradients and optimizer steps."""
        return self.gradient + self.optimizer


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended; the last thing a trial yields, whatever happened."""

    status: RunStatus
    reason: str | None
    """Why it is not COMPLETED: one line, then (for ERROR) the traceback."""
    setup_seconds: float
    elapsed_seconds: float
    overshoot_seconds: float
    env_steps: int
    episodes: int
    updates: int
    steps_per_second: float | None
    """Env steps / elapsed seconds of the whole training, updates included."""
    final_return: float | None
    """Mean evaluation return of the last policy, acting deterministically."""
    final_return_stochastic: float | None
    training_return: float | None
    seconds_to_threshold: float | None
    """First time the 100-episode mean reached the environment's reward threshold; None when
    it never did or there is no threshold."""
    return_area: float | None
    """Mean of training_return over the elapsed time (the area under the curve / seconds)."""
    phases: PhaseSeconds
    evaluate_seconds: float
    cpu_seconds: float | None
    """User and system time of the whole process tree during training."""
    core_seconds: float
    """Elapsed seconds x cores reserved."""
    cpu_utilization: float | None
    peak_rss_bytes: int | None
    involuntary_switches: int | None
    worker_busy_share: float | None = None
    """CPU seconds of the environment processes / (seconds that the learner waited for them x
    as many of them as have CPUs); at most 1. None without such processes."""
    foreign_cpu_share: float | None = None
    """What other processes and the hypervisor took of the leased cores' time."""
    contended: bool | None = None
    """Whether that was too much for the speed to be trusted."""
    gpu_utilization: float | None = None
    """Share of the time in which a visible GPU was busy, with this run's work or others'. None
    without a GPU that tells, as below."""
    gpu_memory_bytes: int | None = None
    """Most memory that was in use on it."""
    leased_cores: tuple[int, ...] = ()
    """CPU numbers this run was pinned to; empty when it was not pinned."""


TrialEvent = WaitingForCores | TrainingStarted | Measurement | Evaluation | RunResult
