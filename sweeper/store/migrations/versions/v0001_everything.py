"""Every table, from nothing. Frozen: later changes are later revisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_timestamp = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
_statuses = (
    "QUEUED | RUNNING | COMPLETED | PRUNED | DIVERGED | ERROR | TIMEOUT | OOM | LOST | INTERRUPTED."
)
_status_is_known = (
    "status IN ('QUEUED', 'RUNNING', 'COMPLETED', 'PRUNED', 'DIVERGED', 'ERROR', 'TIMEOUT', "
    "'OOM', 'LOST', 'INTERRUPTED')"
)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "hosts",
        sa.Column("host_id", sa.Integer(), nullable=False, comment="Key."),
        sa.Column("hostname", sa.Text(), nullable=False, comment="Name of the machine."),
        sa.Column(
            "hardware_class",
            sa.Text(),
            nullable=False,
            comment="Equal for interchangeable machines.",
        ),
        sa.Column("cpu_model", sa.Text(), nullable=False, comment="As the kernel names it."),
        sa.Column(
            "usable_cores",
            sa.BigInteger(),
            nullable=False,
            comment="Within affinity mask and cgroup quota.",
        ),
        sa.Column(
            "memory_bytes", sa.BigInteger(), nullable=False, comment="Memory that may be used."
        ),
        sa.Column("gpu_model", sa.Text(), comment="NULL without a GPU."),
        sa.Column("os", sa.Text(), nullable=False, comment="Operating system and kernel."),
        sa.Column("python", sa.Text(), nullable=False, comment="Version."),
        sa.Column("torch", sa.Text(), nullable=False, comment="Version."),
        sa.Column("gymnasium", sa.Text(), nullable=False, comment="Version."),
        sa.Column("sweeper", sa.Text(), nullable=False, comment="Version."),
        sa.PrimaryKeyConstraint("host_id", name=op.f("pk_hosts")),
        comment="A machine with the versions on it; an upgrade makes a new row.",
    )
    op.create_index(op.f("ix_hosts_hostname"), "hosts", ["hostname"], unique=False)
    op.create_table(
        "studies",
        sa.Column("study_id", sa.Integer(), nullable=False, comment="Key."),
        sa.Column("name", sa.Text(), nullable=False, comment="`study:` of the study file."),
        sa.Column("created_at", _timestamp, nullable=False, comment="First launch, UTC."),
        sa.Column(
            "created_by_version", sa.Text(), nullable=False, comment="sweeper's version then."
        ),
        sa.Column("launched_at", _timestamp, nullable=False, comment="Latest launch, UTC."),
        sa.Column(
            "target_trials",
            sa.BigInteger(),
            comment="`stop.trials` of the latest launch; NULL: no limit.",
        ),
        sa.Column(
            "change_count",
            sa.BigInteger(),
            nullable=False,
            comment="Grows with every write to the study.",
        ),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_studies")),
        sa.UniqueConstraint("name", name=op.f("uq_studies_name")),
        comment="A search: one space, one set of objectives, many trials.",
    )
    op.create_table(
        "importances",
        sa.Column("study_id", sa.Integer(), nullable=False, comment="Its study."),
        sa.Column("at", _timestamp, nullable=False, comment="When it was computed, UTC."),
        sa.Column("objective", sa.Text(), nullable=False, comment="Metric that is explained."),
        sa.Column("path", sa.Text(), nullable=False, comment="Parameter, as in trial_params."),
        sa.Column(
            "importance", sa.Double(), nullable=False, comment="Share of the variance, 0 to 1."
        ),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.study_id"], name=op.f("fk_importances_study_id")
        ),
        sa.PrimaryKeyConstraint("study_id", "at", "objective", "path", name=op.f("pk_importances")),
        comment="How much each parameter mattered to each objective.",
    )
    op.create_table(
        "launchers",
        sa.Column("study_id", sa.Integer(), nullable=False, comment="Its study."),
        sa.Column("launcher_id", sa.Text(), nullable=False, comment="Random; one per process."),
        sa.Column("host", sa.Text(), nullable=False, comment="Where it runs."),
        sa.Column("pid", sa.Integer(), nullable=False, comment="Its process."),
        sa.Column("pid_started_at", _timestamp, comment="Tells a reused pid apart, UTC."),
        sa.Column(
            "acquired_at", _timestamp, nullable=False, comment="Since when it holds the study, UTC."
        ),
        sa.Column("lease_until", _timestamp, nullable=False, comment="Unless renewed before, UTC."),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.study_id"], name=op.f("fk_launchers_study_id")
        ),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_launchers")),
        comment="The launcher that holds a study; at most one.",
    )
    op.create_table(
        "study_versions",
        sa.Column("version_id", sa.Integer(), nullable=False, comment="Key."),
        sa.Column("study_id", sa.Integer(), nullable=False, comment="Its study."),
        sa.Column("number", sa.Integer(), nullable=False, comment="1, 2, ... within the study."),
        sa.Column(
            "created_at", _timestamp, nullable=False, comment="First launch of this version, UTC."
        ),
        sa.Column(
            "spec_yaml", sa.Text(), nullable=False, comment="The study file as it was launched."
        ),
        sa.Column(
            "spec_sha256", sa.Text(), nullable=False, comment="What tells one version from another."
        ),
        sa.Column("env", sa.Text(), nullable=False, comment="Gymnasium id, or `module:function`."),
        sa.Column(
            "objectives",
            sa.Text(),
            nullable=False,
            comment='JSON: metric -> "maximize" | "minimize".',
        ),
        sa.Column(
            "constraints",
            sa.Text(),
            nullable=False,
            comment='JSON: metric -> {"min": x, "max": y}.',
        ),
        sa.Column("budget_seconds", sa.Double(), comment="Training budget of a trial, seconds."),
        sa.Column(
            "budget_env_steps",
            sa.BigInteger(),
            comment="Or in env steps; exactly one of the two is set.",
        ),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.study_id"], name=op.f("fk_study_versions_study_id")
        ),
        sa.PrimaryKeyConstraint("version_id", name=op.f("pk_study_versions")),
        sa.UniqueConstraint("study_id", "number", name=op.f("uq_study_versions_study_id_number")),
        comment="A study file as launched; a changed file makes a new version, old trials stay.",
    )
    op.create_table(
        "trials",
        sa.Column("trial_id", sa.Integer(), nullable=False, comment="Key."),
        sa.Column("study_id", sa.Integer(), nullable=False, comment="Its study."),
        sa.Column(
            "version_id",
            sa.Integer(),
            nullable=False,
            comment="The version of the study that asked for it.",
        ),
        sa.Column("number", sa.Integer(), nullable=False, comment="1, 2, ... within the study."),
        sa.Column(
            "origin",
            sa.Text(),
            nullable=False,
            comment="baseline | enqueued | startup | sampler | warm_start.",
        ),
        sa.Column(
            "sampler", sa.Text(), comment="What suggested it (tpe, qmc, ...); NULL: the study file."
        ),
        sa.Column("asked_at", _timestamp, nullable=False, comment="When it was suggested, UTC."),
        sa.Column(
            "status",
            sa.Text(),
            nullable=False,
            comment="COMPLETED once a run is; else RUNNING while one runs; else its last run's.",
        ),
        sa.Column("feasible", sa.Boolean(), comment="May stand on the front; NULL until known."),
        sa.Column("budget_seconds", sa.Double(), comment="Training budget, seconds."),
        sa.Column(
            "budget_env_steps",
            sa.BigInteger(),
            comment="Or in env steps; exactly one of the two is set.",
        ),
        sa.Column(
            "config_json",
            sa.Text(),
            nullable=False,
            comment="The resolved configuration; runs as is.",
        ),
        sa.Column(
            "config_sha256",
            sa.Text(),
            nullable=False,
            comment="SHA-256 of config_json; finds repeats.",
        ),
        sa.Column("algorithm", sa.Text(), nullable=False, comment="ppo | a2c."),
        sa.Column("optimizer", sa.Text(), nullable=False, comment="adam | adamw | rmsprop | sgd."),
        sa.Column(
            "schedule", sa.Text(), nullable=False, comment="How the learning rate follows progress."
        ),
        sa.Column("learning_rate", sa.Double(), nullable=False, comment="At progress 0."),
        sa.Column("vec_env", sa.Text(), nullable=False, comment="serial | subproc."),
        sa.Column(
            "n_envs", sa.BigInteger(), nullable=False, comment="Environments stepped together."
        ),
        sa.Column(
            "envs_per_worker",
            sa.BigInteger(),
            nullable=False,
            comment="Environments in one process.",
        ),
        sa.Column(
            "n_workers",
            sa.BigInteger(),
            nullable=False,
            comment="Environment processes; 0 for serial.",
        ),
        sa.Column("cores", sa.BigInteger(), nullable=False, comment="Cores reserved."),
        sa.Column(
            "torch_threads", sa.BigInteger(), nullable=False, comment="Threads of the learner."
        ),
        sa.Column(
            "n_steps",
            sa.BigInteger(),
            nullable=False,
            comment="Steps of each environment in a rollout.",
        ),
        sa.Column(
            "n_minibatches",
            sa.BigInteger(),
            nullable=False,
            comment="Minibatches an epoch; 1 for a2c.",
        ),
        sa.Column(
            "n_epochs", sa.BigInteger(), nullable=False, comment="Passes over a rollout; 1 for a2c."
        ),
        sa.Column("batch_size", sa.BigInteger(), nullable=False, comment="n_envs x n_steps."),
        sa.Column(
            "minibatch_size",
            sa.BigInteger(),
            nullable=False,
            comment="Transitions a gradient step.",
        ),
        sa.Column("gamma", sa.Double(), nullable=False, comment="Discount."),
        sa.Column(
            "gae_lambda", sa.Double(), nullable=False, comment="Lambda of the advantage estimate."
        ),
        sa.Column(
            "clip_range", sa.Double(), comment="PPO's clip of the probability ratio; NULL for a2c."
        ),
        sa.Column(
            "entropy_coef", sa.Double(), nullable=False, comment="Weight of the entropy bonus."
        ),
        sa.CheckConstraint(
            "origin IN ('baseline', 'enqueued', 'startup', 'sampler', 'warm_start')",
            name=op.f("ck_trials_origin"),
        ),
        sa.CheckConstraint(_status_is_known, name=op.f("ck_trials_status")),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.study_id"], name=op.f("fk_trials_study_id")
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["study_versions.version_id"], name=op.f("fk_trials_version_id")
        ),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_trials")),
        sa.UniqueConstraint("study_id", "number", name=op.f("uq_trials_study_id_number")),
        comment="A configuration. Its metrics are means over its COMPLETED runs: trial_results.",
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Integer(), nullable=False, comment="Key."),
        sa.Column("trial_id", sa.Integer(), nullable=False, comment="Its trial."),
        sa.Column(
            "kind", sa.Text(), nullable=False, comment="first | replicate | retry | confirm."
        ),
        sa.Column("attempt", sa.Integer(), nullable=False, comment="1, 2, ... with the same seed."),
        sa.Column(
            "seed",
            sa.BigInteger(),
            nullable=False,
            comment="Seeds networks, actions and environments.",
        ),
        sa.Column("seed_kind", sa.Text(), nullable=False, comment="tuning | test."),
        sa.Column("host_id", sa.Integer(), comment="Where it ran."),
        sa.Column("budget_seconds", sa.Double(), comment="Training budget, seconds."),
        sa.Column(
            "budget_env_steps",
            sa.BigInteger(),
            comment="Or in env steps; exactly one of the two is set.",
        ),
        sa.Column("status", sa.Text(), nullable=False, comment=_statuses),
        sa.Column(
            "reason", sa.Text(), comment="Why it is not COMPLETED: a line, then any traceback."
        ),
        sa.Column("started_at", _timestamp, comment="UTC."),
        sa.Column("ended_at", _timestamp, comment="UTC."),
        sa.Column(
            "setup_seconds",
            sa.Double(),
            comment="Imports, environments, first reset; off the budget.",
        ),
        sa.Column("elapsed_seconds", sa.Double(), comment="Training; what the budget limits."),
        sa.Column("overshoot_seconds", sa.Double(), comment="Training past a budget of seconds."),
        sa.Column("env_steps", sa.BigInteger(), comment="Over all environments."),
        sa.Column("episodes", sa.BigInteger(), comment="Training episodes finished."),
        sa.Column("updates", sa.BigInteger(), comment="Rollouts learned from."),
        sa.Column(
            "steps_per_second",
            sa.Double(),
            comment="env_steps / elapsed_seconds, updates included.",
        ),
        sa.Column(
            "final_return", sa.Double(), comment="Mean evaluation return of the last policy."
        ),
        sa.Column(
            "final_return_stochastic", sa.Double(), comment="The same, with sampled actions."
        ),
        sa.Column(
            "training_return", sa.Double(), comment="Mean return of the last 100 training episodes."
        ),
        sa.Column(
            "seconds_to_threshold",
            sa.Double(),
            comment="Until training_return reached the environment's threshold; NULL: it did not.",
        ),
        sa.Column(
            "return_area", sa.Double(), comment="Mean of training_return over the elapsed time."
        ),
        sa.Column(
            "rollout_seconds", sa.Double(), comment="Collecting: inference, env wait, bookkeeping."
        ),
        sa.Column("inference_seconds", sa.Double(), comment="Of which: the policy acting."),
        sa.Column("env_wait_seconds", sa.Double(), comment="Of which: waiting for environments."),
        sa.Column(
            "update_seconds", sa.Double(), comment="Learning: gradients and optimizer steps."
        ),
        sa.Column("optimizer_seconds", sa.Double(), comment="Of which: optimizer steps."),
        sa.Column(
            "normalize_seconds",
            sa.Double(),
            comment="Running statistics of observations and rewards.",
        ),
        sa.Column("other_seconds", sa.Double(), comment="What no phase claimed."),
        sa.Column("evaluate_seconds", sa.Double(), comment="Evaluation; off the budget."),
        sa.Column(
            "cpu_seconds", sa.Double(), comment="User and system time of the whole process tree."
        ),
        sa.Column("core_seconds", sa.Double(), comment="elapsed_seconds x cores reserved."),
        sa.Column("cpu_utilization", sa.Double(), comment="cpu_seconds / core_seconds."),
        sa.Column(
            "worker_busy_share", sa.Double(), comment="Share of time that env processes worked."
        ),
        sa.Column(
            "foreign_cpu_share", sa.Double(), comment="Of its cores' time, what others took."
        ),
        sa.Column(
            "involuntary_switches",
            sa.BigInteger(),
            comment="Context switches forced by the kernel.",
        ),
        sa.Column(
            "peak_rss_bytes", sa.BigInteger(), comment="Most resident memory of the process tree."
        ),
        sa.Column("gpu_utilization", sa.Double(), comment="Share of time that the GPU was busy."),
        sa.Column(
            "leased_cores",
            sa.Text(),
            comment="CPU numbers it was pinned to: `2,3`; NULL: not pinned.",
        ),
        sa.Column(
            "contended",
            sa.Boolean(),
            comment="Others took too much of its cores to trust its speed.",
        ),
        sa.Column("rung", sa.Integer(), comment="The rung at which it was pruned."),
        sa.Column("bottleneck", sa.Text(), comment="What limits its speed."),
        sa.Column("advice", sa.Text(), comment="One change to try."),
        sa.CheckConstraint(
            "kind IN ('first', 'replicate', 'retry', 'confirm')", name=op.f("ck_runs_kind")
        ),
        sa.CheckConstraint("seed_kind IN ('tuning', 'test')", name=op.f("ck_runs_seed_kind")),
        sa.CheckConstraint(_status_is_known, name=op.f("ck_runs_status")),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.host_id"], name=op.f("fk_runs_host_id")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.trial_id"], name=op.f("fk_runs_trial_id")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
        sa.UniqueConstraint(
            "trial_id",
            "seed_kind",
            "seed",
            "attempt",
            name=op.f("uq_runs_trial_id_seed_kind_seed_attempt"),
        ),
        comment="One attempt at a trial with one seed.",
    )
    op.create_table(
        "trial_constraints",
        sa.Column("trial_id", sa.Integer(), nullable=False, comment="Its trial."),
        sa.Column("name", sa.Text(), nullable=False, comment="What is constrained."),
        sa.Column(
            "value",
            sa.Double(),
            nullable=False,
            comment="How far it is violated; <= 0 is feasible.",
        ),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.trial_id"], name=op.f("fk_trial_constraints_trial_id")
        ),
        sa.PrimaryKeyConstraint("trial_id", "name", name=op.f("pk_trial_constraints")),
        comment="By how much each constraint of the study is violated.",
    )
    op.create_table(
        "trial_params",
        sa.Column("trial_id", sa.Integer(), nullable=False, comment="Its trial."),
        sa.Column("path", sa.Text(), nullable=False, comment="Dotted path into `trial:`."),
        sa.Column(
            "value_number", sa.Double(), comment="A number, or 1 | 0 for a boolean; else NULL."
        ),
        sa.Column("value_text", sa.Text(), comment="The value as readable text; NULL for null."),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.trial_id"], name=op.f("fk_trial_params_trial_id")
        ),
        sa.PrimaryKeyConstraint("trial_id", "path", name=op.f("pk_trial_params")),
        comment="Every searched parameter of every trial.",
    )
    op.create_table(
        "artifacts",
        sa.Column("artifact_id", sa.Integer(), nullable=False, comment="Key."),
        sa.Column("run_id", sa.Integer(), nullable=False, comment="Its run."),
        sa.Column("kind", sa.Text(), nullable=False, comment="checkpoint | log."),
        sa.Column("path", sa.Text(), nullable=False, comment="Where the file is."),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="Its size."),
        sa.Column("sha256", sa.Text(), nullable=False, comment="Of its content."),
        sa.CheckConstraint("kind IN ('checkpoint', 'log')", name=op.f("ck_artifacts_kind")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_artifacts_run_id")),
        sa.PrimaryKeyConstraint("artifact_id", name=op.f("pk_artifacts")),
        comment="Files that a run left.",
    )
    op.create_index(op.f("ix_artifacts_run_id"), "artifacts", ["run_id"], unique=False)
    op.create_table(
        "evaluations",
        sa.Column("run_id", sa.Integer(), nullable=False, comment="Its run."),
        sa.Column(
            "episode", sa.Integer(), autoincrement=False, nullable=False, comment="0, 1, ..."
        ),
        sa.Column("seed", sa.BigInteger(), nullable=False, comment="Of the environment's reset."),
        sa.Column(
            "deterministic", sa.Boolean(), nullable=False, comment="Mode, or a sampled action."
        ),
        sa.Column("episode_return", sa.Double(), comment="Undiscounted, not normalized."),
        sa.Column("length", sa.BigInteger(), nullable=False, comment="Env steps."),
        sa.Column(
            "truncated",
            sa.Boolean(),
            nullable=False,
            comment="Cut by a limit, not ended by itself.",
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_evaluations_run_id")),
        sa.PrimaryKeyConstraint("run_id", "episode", "deterministic", name=op.f("pk_evaluations")),
        comment="Evaluation episodes of the policy as it stood at the deadline.",
    )
    op.create_table(
        "events",
        sa.Column("event_id", sa.Integer(), nullable=False, comment="Key; grows with time."),
        sa.Column("at", _timestamp, nullable=False, comment="UTC."),
        sa.Column("study_id", sa.Integer(), comment="Concerned study."),
        sa.Column("trial_id", sa.Integer(), comment="Concerned trial."),
        sa.Column("run_id", sa.Integer(), comment="Concerned run."),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="asked, started, finished, lost, retried, ...",
        ),
        sa.Column("detail", sa.Text(), comment="For people."),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_events_run_id")),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.study_id"], name=op.f("fk_events_study_id")
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.trial_id"], name=op.f("fk_events_trial_id")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_events")),
        comment="Who did what when.",
    )
    op.create_index(op.f("ix_events_study_id"), "events", ["study_id"], unique=False)
    op.create_table(
        "measurements",
        sa.Column("run_id", sa.Integer(), nullable=False, comment="Its run."),
        sa.Column(
            "elapsed_seconds", sa.Double(), nullable=False, comment="Training seconds so far."
        ),
        sa.Column(
            "progress", sa.Double(), nullable=False, comment="Share of the budget spent, 0 to 1."
        ),
        sa.Column(
            "env_steps",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="Over all environments.",
        ),
        sa.Column(
            "updates", sa.BigInteger(), nullable=False, comment="Rollouts learned from so far."
        ),
        sa.Column(
            "episodes",
            sa.BigInteger(),
            nullable=False,
            comment="Training episodes finished so far.",
        ),
        sa.Column(
            "training_return", sa.Double(), comment="Mean return of the last 100 training episodes."
        ),
        sa.Column("episode_length", sa.Double(), comment="Their mean length, env steps."),
        sa.Column("steps_per_second", sa.Double(), comment="env_steps / elapsed_seconds."),
        sa.Column("learning_rate", sa.Double(), comment="As the schedule set it."),
        sa.Column(
            "approx_kl",
            sa.Double(),
            comment="From the policy that collected to the one that learned.",
        ),
        sa.Column("clip_fraction", sa.Double(), comment="Share of samples that PPO clipped."),
        sa.Column("entropy", sa.Double(), comment="Of the policy, nats."),
        sa.Column("policy_loss", sa.Double(), comment="Mean over minibatches."),
        sa.Column("value_loss", sa.Double(), comment="Mean over minibatches."),
        sa.Column("explained_variance", sa.Double(), comment="Of returns by values: 1 is perfect."),
        sa.Column(
            "grad_norm", sa.Double(), comment="Global, before clipping, mean over minibatches."
        ),
        sa.Column(
            "kfac_nu", sa.Double(), comment="Trust-region scale of KFAC; NULL for other optimizers."
        ),
        sa.Column(
            "cpu_utilization", sa.Double(), comment="CPU seconds / (elapsed seconds x cores)."
        ),
        sa.Column("rss_bytes", sa.BigInteger(), comment="Resident memory of the process tree."),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_measurements_run_id")),
        sa.PrimaryKeyConstraint("run_id", "env_steps", name=op.f("pk_measurements")),
        comment="Learning curves: at most about 300 points a run, even over its budget.",
    )
