"""The tables of the results database, each column with its unit and meaning.

A study is versioned; it has trials (configurations); a trial has runs (one attempt with one
seed); a run has measurements and evaluation episodes. What is searched often is a column,
and every searched parameter is also a row of `trial_params`. The comments below are the
documentation: docs/schema.md repeats them for readers, and PostgreSQL stores them.

The views over these tables are in `views.py`. A change here needs a migration.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

from sweeper.core.records import RunStatus

REVISION = "0004"
"""The migration that this file describes. Revisions are numbers, so that older and newer can
be told apart without loading alembic."""


class Real(TypeDecorator[float]):
    """A finite double. NaN and infinity become NULL: SQLite cannot hold NaN, and a diverged
    loss must not read differently on the two databases.
    """

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> float | None:  # noqa: ARG002
        """A plain float (numpy's are accepted), or None."""
        return None if value is None or not math.isfinite(value) else float(value)


class Count(TypeDecorator[int]):
    """A 64-bit integer. Coerced, because sqlite3 stores a numpy integer as a blob."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> int | None:  # noqa: ARG002
        """A plain int, or None."""
        return None if value is None else int(value)


class Timestamp(TypeDecorator[datetime]):
    """A moment in UTC: timestamptz on PostgreSQL; on SQLite, which has no such type, ISO 8601
    text of fixed width, which sorts as time does and which its date functions read.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column type of this database."""
        postgresql = dialect.name == "postgresql"
        return dialect.type_descriptor(DateTime(timezone=True) if postgresql else Text())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """UTC; a naive datetime is a bug, since nobody knows whose clock it read."""
        if value is None:
            return None
        assert value.tzinfo is not None, "timestamps carry a time zone"
        utc = value.astimezone(UTC)
        return utc if dialect.name == "postgresql" else utc.isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Aware, in UTC."""
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        # SQLite's are UTC already; to convert them all the same takes most of a large read.
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _one_of(column: str, *values: str) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(map(repr, values))})", name=column)


_STATUSES = tuple(map(str, RunStatus))

studies = Table(
    "studies",
    metadata,
    Column("study_id", Integer, primary_key=True, comment="Key."),
    Column("name", Text, nullable=False, unique=True, comment="`study:` of the study file."),
    Column("created_at", Timestamp, nullable=False, comment="First launch, UTC."),
    Column("created_by_version", Text, nullable=False, comment="sweeper's version then."),
    Column("launched_at", Timestamp, nullable=False, comment="Latest launch, UTC."),
    Column("target_trials", Count, comment="`stop.trials` of the latest launch; NULL: no limit."),
    Column("change_count", Count, nullable=False, comment="Grows with every write to the study."),
    comment="A search: one space, one set of objectives, many trials.",
)

study_versions = Table(
    "study_versions",
    metadata,
    Column("version_id", Integer, primary_key=True, comment="Key."),
    Column("study_id", ForeignKey(studies.c.study_id), nullable=False, comment="Its study."),
    Column("number", Integer, nullable=False, comment="1, 2, ... within the study."),
    Column("created_at", Timestamp, nullable=False, comment="First launch of this version, UTC."),
    Column("spec_yaml", Text, nullable=False, comment="The study file as it was launched."),
    Column("spec_sha256", Text, nullable=False, comment="What tells one version from another."),
    Column("env", Text, nullable=False, comment="Gymnasium id, or `module:function`."),
    Column("objectives", Text, nullable=False, comment='JSON: metric -> "maximize" | "minimize".'),
    Column("constraints", Text, nullable=False, comment='JSON: metric -> {"min": x, "max": y}.'),
    Column("budget_seconds", Real, comment="Training budget of a trial, seconds."),
    Column("budget_env_steps", Count, comment="Or in env steps; exactly one of the two is set."),
    Column("untrained_return", Real, comment="Of the policy before training; NULL until measured."),
    UniqueConstraint("study_id", "number"),
    comment="A study file as launched; a changed file makes a new version, old trials stay.",
)

trials = Table(
    "trials",
    metadata,
    Column("trial_id", Integer, primary_key=True, comment="Key."),
    Column("study_id", ForeignKey(studies.c.study_id), nullable=False, comment="Its study."),
    Column(
        "version_id",
        ForeignKey(study_versions.c.version_id),
        nullable=False,
        comment="The version of the study that asked for it.",
    ),
    Column("number", Integer, nullable=False, comment="1, 2, ... within the study."),
    Column(
        "origin",
        Text,
        nullable=False,
        comment="baseline | enqueued | startup | sampler | warm_start.",
    ),
    Column("sampler", Text, comment="What suggested it (tpe, qmc, ...); NULL: the study file."),
    Column("asked_at", Timestamp, nullable=False, comment="When it was suggested, UTC."),
    Column(
        "status",
        Text,
        nullable=False,
        comment="COMPLETED once a run is; else RUNNING while one runs; else its last run's.",
    ),
    Column("feasible", Boolean, comment="May stand on the front; NULL until known."),
    Column("budget_seconds", Real, comment="Training budget, seconds."),
    Column("budget_env_steps", Count, comment="Or in env steps; exactly one of the two is set."),
    Column("config_json", Text, nullable=False, comment="The resolved configuration; runs as is."),
    Column("config_sha256", Text, nullable=False, comment="SHA-256 of config_json; finds repeats."),
    Column("algorithm", Text, nullable=False, comment="ppo | a2c | acktr | sb3 | module:Learner."),
    Column(
        "optimizer",
        Text,
        comment="adam | adamw | rmsprop | sgd | kfac; NULL, as below, for module:Learner.",
    ),
    Column("schedule", Text, comment="How the learning rate follows progress."),
    Column("learning_rate", Real, comment="At progress 0."),
    Column("vec_env", Text, nullable=False, comment="serial | subproc | gymnasium."),
    Column("n_envs", Count, nullable=False, comment="Environments stepped together."),
    Column("envs_per_worker", Count, nullable=False, comment="Environments in one process."),
    Column("n_workers", Count, nullable=False, comment="Environment processes; 0 for serial."),
    Column("cores", Count, nullable=False, comment="Cores reserved."),
    Column("torch_threads", Count, nullable=False, comment="Threads of the learner."),
    Column("n_steps", Count, comment="Steps of each environment in a rollout."),
    Column("n_minibatches", Count, comment="Minibatches an epoch; 1 for a2c."),
    Column("n_epochs", Count, comment="Passes over a rollout; 1 for a2c."),
    Column("batch_size", Count, comment="n_envs x n_steps."),
    Column("minibatch_size", Count, comment="Transitions a gradient step."),
    Column("gamma", Real, comment="Discount."),
    Column("gae_lambda", Real, comment="Lambda of the advantage estimate."),
    Column("clip_range", Real, comment="PPO's clip of the probability ratio; NULL for a2c."),
    Column("entropy_coef", Real, comment="Weight of the entropy bonus."),
    Column(
        "change_count",
        Count,
        nullable=False,
        server_default="0",
        comment="The study's change_count when this trial last changed.",
    ),
    _one_of("status", *_STATUSES),
    _one_of("origin", "baseline", "enqueued", "startup", "sampler", "warm_start"),
    UniqueConstraint("study_id", "number"),
    Index(None, "study_id", "change_count"),
    comment="A configuration. Its metrics are means over its COMPLETED runs: trial_results.",
)

trial_params = Table(
    "trial_params",
    metadata,
    Column(
        "trial_id",
        ForeignKey(trials.c.trial_id),
        primary_key=True,
        comment="Its trial.",
    ),
    Column("path", Text, primary_key=True, comment="Dotted path into `trial:`."),
    Column("value_number", Real, comment="A number, or 1 | 0 for a boolean; else NULL."),
    Column("value_text", Text, comment="The value as readable text; NULL for null."),
    comment="Every searched parameter of every trial.",
)

trial_constraints = Table(
    "trial_constraints",
    metadata,
    Column("trial_id", ForeignKey(trials.c.trial_id), primary_key=True, comment="Its trial."),
    Column("name", Text, primary_key=True, comment="What is constrained."),
    Column("value", Real, nullable=False, comment="How far it is violated; <= 0 is feasible."),
    comment="By how much each constraint of the study is violated.",
)

hosts = Table(
    "hosts",
    metadata,
    Column("host_id", Integer, primary_key=True, comment="Key."),
    Column("hostname", Text, nullable=False, comment="Name of the machine."),
    Column("hardware_class", Text, nullable=False, comment="Equal for interchangeable machines."),
    Column("cpu_model", Text, nullable=False, comment="As the kernel names it."),
    Column("usable_cores", Count, nullable=False, comment="Within affinity mask and cgroup quota."),
    Column("memory_bytes", Count, nullable=False, comment="Memory that may be used."),
    Column("gpu_model", Text, comment="NULL without a GPU."),
    Column("os", Text, nullable=False, comment="Operating system and kernel."),
    Column("python", Text, nullable=False, comment="Version."),
    Column("torch", Text, nullable=False, comment="Version."),
    Column("gymnasium", Text, nullable=False, comment="Version."),
    Column("sweeper", Text, nullable=False, comment="Version."),
    Index(None, "hostname"),
    comment="A machine with the versions on it; an upgrade makes a new row.",
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Integer, primary_key=True, comment="Key."),
    Column("trial_id", ForeignKey(trials.c.trial_id), nullable=False, comment="Its trial."),
    Column("kind", Text, nullable=False, comment="first | replicate | retry | confirm."),
    Column("attempt", Integer, nullable=False, comment="1, 2, ... with the same seed."),
    Column("seed", Count, nullable=False, comment="Seeds networks, actions and environments."),
    Column("seed_kind", Text, nullable=False, comment="tuning | test."),
    Column("host_id", ForeignKey(hosts.c.host_id), comment="Where it ran."),
    Column("budget_seconds", Real, comment="Training budget, seconds."),
    Column("budget_env_steps", Count, comment="Or in env steps; exactly one of the two is set."),
    Column("status", Text, nullable=False, comment=" | ".join(_STATUSES) + "."),
    Column("reason", Text, comment="Why it is not COMPLETED: a line, then any traceback."),
    Column("started_at", Timestamp, comment="UTC."),
    Column("ended_at", Timestamp, comment="UTC."),
    Column("setup_seconds", Real, comment="Imports, environments, first reset; off the budget."),
    Column("elapsed_seconds", Real, comment="Training; what the budget limits."),
    Column("overshoot_seconds", Real, comment="Training past a budget of seconds."),
    Column("env_steps", Count, comment="Over all environments."),
    Column("episodes", Count, comment="Training episodes finished."),
    Column("updates", Count, comment="Rollouts learned from."),
    Column("steps_per_second", Real, comment="env_steps / elapsed_seconds, updates included."),
    Column("final_return", Real, comment="Mean evaluation return of the last policy."),
    Column("final_return_stochastic", Real, comment="The same, with sampled actions."),
    Column("training_return", Real, comment="Mean return of the last 100 training episodes."),
    Column(
        "seconds_to_threshold",
        Real,
        comment="Until training_return reached the environment's threshold; NULL: it did not.",
    ),
    Column("return_area", Real, comment="Mean of training_return over the elapsed time."),
    Column("rollout_seconds", Real, comment="Collecting: inference, env wait, bookkeeping."),
    Column("inference_seconds", Real, comment="Of which: the policy acting."),
    Column("env_wait_seconds", Real, comment="Of which: waiting for environments."),
    Column("update_seconds", Real, comment="Learning: gradients and optimizer steps."),
    Column("optimizer_seconds", Real, comment="Of which: optimizer steps."),
    Column("normalize_seconds", Real, comment="Running statistics of observations and rewards."),
    Column("other_seconds", Real, comment="What no phase claimed."),
    Column("evaluate_seconds", Real, comment="Evaluation; off the budget."),
    Column("cpu_seconds", Real, comment="User and system time of the whole process tree."),
    Column("core_seconds", Real, comment="elapsed_seconds x cores reserved."),
    Column("cpu_utilization", Real, comment="cpu_seconds / core_seconds."),
    Column("worker_busy_share", Real, comment="Share of time that env processes worked."),
    Column("foreign_cpu_share", Real, comment="Of its cores' time, what others took."),
    Column("involuntary_switches", Count, comment="Context switches forced by the kernel."),
    Column("peak_rss_bytes", Count, comment="Most resident memory of the process tree."),
    Column("gpu_utilization", Real, comment="Share of time that the GPU was busy."),
    Column("gpu_memory_bytes", Count, comment="Most memory in use on the GPU, by whomever."),
    Column("leased_cores", Text, comment="CPU numbers it was pinned to: `2,3`; NULL: not pinned."),
    Column("contended", Boolean, comment="Others took too much of its cores to trust its speed."),
    Column("rung", Integer, comment="The rung at which it was pruned."),
    Column("bottleneck", Text, comment="What limits its speed."),
    Column("advice", Text, comment="One change to try."),
    _one_of("status", *_STATUSES),
    _one_of("kind", "first", "replicate", "retry", "confirm"),
    _one_of("seed_kind", "tuning", "test"),
    UniqueConstraint("trial_id", "seed_kind", "seed", "attempt"),
    comment="One attempt at a trial with one seed.",
)

measurements = Table(
    "measurements",
    metadata,
    Column("run_id", ForeignKey(runs.c.run_id), primary_key=True, comment="Its run."),
    Column("elapsed_seconds", Real, nullable=False, comment="Training seconds so far."),
    Column("progress", Real, nullable=False, comment="Share of the budget spent, 0 to 1."),
    Column(
        "env_steps",
        Count,
        primary_key=True,
        autoincrement=False,
        comment="Over all environments.",
    ),
    Column("updates", Count, nullable=False, comment="Rollouts learned from so far."),
    Column("episodes", Count, nullable=False, comment="Training episodes finished so far."),
    Column("training_return", Real, comment="Mean return of the last 100 training episodes."),
    Column("episode_length", Real, comment="Their mean length, env steps."),
    Column("steps_per_second", Real, comment="env_steps / elapsed_seconds."),
    Column("learning_rate", Real, comment="As the schedule set it."),
    Column("approx_kl", Real, comment="From the policy that collected to the one that learned."),
    Column("clip_fraction", Real, comment="Share of samples that PPO clipped."),
    Column("entropy", Real, comment="Of the policy, nats."),
    Column("policy_loss", Real, comment="Mean over minibatches."),
    Column("value_loss", Real, comment="Mean over minibatches."),
    Column("explained_variance", Real, comment="Of returns by values: 1 is perfect."),
    Column("grad_norm", Real, comment="Global, before clipping, mean over minibatches."),
    Column("kfac_nu", Real, comment="Trust-region scale of KFAC; NULL for other optimizers."),
    Column("cpu_utilization", Real, comment="CPU seconds / (elapsed seconds x cores)."),
    Column("rss_bytes", Count, comment="Resident memory of the process tree."),
    comment="Learning curves: at most about 300 points a run, even over its budget.",
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("run_id", ForeignKey(runs.c.run_id), primary_key=True, comment="Its run."),
    Column("episode", Integer, primary_key=True, autoincrement=False, comment="0, 1, ..."),
    Column("seed", Count, nullable=False, comment="Of the environment's reset."),
    Column("deterministic", Boolean, primary_key=True, comment="Mode, or a sampled action."),
    Column("episode_return", Real, comment="Undiscounted, not normalized."),
    Column("length", Count, nullable=False, comment="Env steps."),
    Column("truncated", Boolean, nullable=False, comment="Cut by a limit, not ended by itself."),
    comment="Evaluation episodes of the policy as it stood at the deadline.",
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("artifact_id", Integer, primary_key=True, comment="Key."),
    Column("run_id", ForeignKey(runs.c.run_id), nullable=False, index=True, comment="Its run."),
    Column("kind", Text, nullable=False, comment="checkpoint | log."),
    Column("path", Text, nullable=False, comment="Where the file is."),
    Column("bytes", Count, nullable=False, comment="Its size."),
    Column("sha256", Text, nullable=False, comment="Of its content."),
    _one_of("kind", "checkpoint", "log"),
    comment="Files that a run left.",
)

importances = Table(
    "importances",
    metadata,
    Column("study_id", ForeignKey(studies.c.study_id), primary_key=True, comment="Its study."),
    Column("at", Timestamp, primary_key=True, comment="When it was computed, UTC."),
    Column("objective", Text, primary_key=True, comment="Metric that is explained."),
    Column("path", Text, primary_key=True, comment="Parameter, as in trial_params."),
    Column("importance", Real, nullable=False, comment="Share of the variance, 0 to 1."),
    comment="How much each parameter mattered to each objective.",
)

events = Table(
    "events",
    metadata,
    Column("event_id", Integer, primary_key=True, comment="Key; grows with time."),
    Column("at", Timestamp, nullable=False, comment="UTC."),
    Column("study_id", ForeignKey(studies.c.study_id), index=True, comment="Concerned study."),
    Column("trial_id", ForeignKey(trials.c.trial_id), comment="Concerned trial."),
    Column("run_id", ForeignKey(runs.c.run_id), comment="Concerned run."),
    Column("kind", Text, nullable=False, comment="asked, started, finished, lost, retried, ..."),
    Column("detail", Text, comment="For people."),
    comment="Who did what when.",
)

launchers = Table(
    "launchers",
    metadata,
    Column("study_id", ForeignKey(studies.c.study_id), primary_key=True, comment="Its study."),
    Column("launcher_id", Text, nullable=False, comment="Random; one per process."),
    Column("host", Text, nullable=False, comment="Where it runs."),
    Column("pid", Integer, nullable=False, comment="Its process."),
    Column("pid_started_at", Timestamp, comment="Tells a reused pid apart, UTC."),
    Column("acquired_at", Timestamp, nullable=False, comment="Since when it holds the study, UTC."),
    Column("lease_until", Timestamp, nullable=False, comment="Unless renewed before, UTC."),
    comment="The launcher that holds a study; at most one.",
)
