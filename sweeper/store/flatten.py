"""Records and specs as the columns of a row. Pure; `store` writes them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from sweeper.core.clock import BudgetSpec
from sweeper.core.records import Evaluation, Measurement, RunResult
from sweeper.rl.foreign import CustomSpec, SB3A2CSpec, SB3PPOSpec, SB3Spec
from sweeper.rl.spec import AlgorithmSpec, PPOSpec
from sweeper.store.rows import ParamValue
from sweeper.store.schema import runs
from sweeper.trial.spec import TrialSpec


def budget_columns(budget: BudgetSpec) -> dict[str, Any]:
    """The two columns of which one is set."""
    return {"budget_seconds": budget.seconds, "budget_env_steps": budget.env_steps}


def configuration_columns(config: TrialSpec) -> dict[str, Any]:
    """The columns of `trials` that spell out a configuration."""
    text = config.model_dump_json()
    parallelism = config.parallelism
    return {
        "config_json": text,
        "config_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "algorithm": config.algorithm.name,
        "vec_env": parallelism.vec_env,
        "n_envs": parallelism.n_envs,
        "envs_per_worker": parallelism.resolved_envs_per_worker,
        "n_workers": parallelism.n_workers,
        "cores": parallelism.cores,
        "torch_threads": parallelism.torch_threads,
        "n_minibatches": config.n_minibatches,
        "batch_size": config.batch_size,
        "minibatch_size": config.minibatch_size,
        **_algorithm_columns(config.algorithm),
    }


def _algorithm_columns(algorithm: AlgorithmSpec) -> dict[str, Any]:
    """None is what an algorithm does not have; of a learner of the user's own, all of it."""
    match algorithm:
        case CustomSpec():
            return dict.fromkeys(
                (
                    "optimizer",
                    "schedule",
                    "learning_rate",
                    "n_steps",
                    "n_epochs",
                    "gamma",
                    "gae_lambda",
                    "clip_range",
                    "entropy_coef",
                )
            )
        case SB3Spec():
            is_rms_prop = isinstance(algorithm, SB3A2CSpec) and algorithm.use_rms_prop
            theirs = algorithm if isinstance(algorithm, SB3PPOSpec) else None
            own: dict[str, Any] = {
                "optimizer": "rmsprop" if is_rms_prop else "adam",
                "schedule": algorithm.learning_rate_schedule.kind,
                "learning_rate": algorithm.learning_rate,
                "n_epochs": 1 if theirs is None else theirs.n_epochs,
                "clip_range": None if theirs is None else theirs.clip_range,
                "entropy_coef": algorithm.ent_coef,
            }
        case _:
            ppo = algorithm if isinstance(algorithm, PPOSpec) else None
            own = {
                "optimizer": algorithm.optimizer.kind,
                "schedule": algorithm.optimizer.schedule.kind,
                "learning_rate": algorithm.optimizer.learning_rate,
                "n_epochs": 1 if ppo is None else ppo.n_epochs,
                "clip_range": None if ppo is None else ppo.clip_range,
                "entropy_coef": algorithm.entropy_coef,
            }
    return own | {
        "n_steps": algorithm.n_steps,
        "gamma": algorithm.gamma,
        "gae_lambda": algorithm.gae_lambda,
    }


def param_columns(value: ParamValue) -> dict[str, Any]:
    """A value as a row of trial_params; `queries` reads it back with its type."""
    if value is None or isinstance(value, str):
        return {"value_number": None, "value_text": value}
    return {"value_number": float(value), "value_text": json.dumps(value)}


def measurement_columns(run_id: int, row: Measurement) -> dict[str, Any]:
    """A point of a learning curve. Not `asdict`, which copies deeply: half the time of a write."""
    return {"run_id": run_id} | {name: getattr(row, name) for name in Measurement.__slots__}


def evaluation_columns(run_id: int, row: Evaluation) -> dict[str, Any]:
    """An evaluation episode."""
    return {"run_id": run_id} | {name: getattr(row, name) for name in Evaluation.__slots__}


def outcome_columns(result: RunResult) -> dict[str, Any]:
    """The columns of `runs` that say how it ended."""
    values = {name: value for name, value in asdict(result).items() if name in runs.c}
    phases = result.phases
    return values | {
        "status": result.status.value,
        "rollout_seconds": phases.rollout,
        "inference_seconds": phases.inference,
        "env_wait_seconds": phases.env_wait,
        "update_seconds": phases.update,
        "optimizer_seconds": phases.optimizer,
        "normalize_seconds": phases.normalize,
        "other_seconds": phases.other,
        "leased_cores": ",".join(map(str, result.leased_cores)) or None,
    }
