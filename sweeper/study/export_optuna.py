"""A study as an Optuna study in an Optuna storage, for optuna-dashboard and Optuna's own tools.

A copy for reading: nothing of sweeper's ever reads it back. Parameters have their real values,
not the coordinates that the sampler sees, and each distribution spans the values that occurred.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sweeper.core.errors import InputError
from sweeper.report.metrics import METRICS, value_of
from sweeper.store.rows import ParamValue, StudyRow, TrialRow

_LOG_SPAN = 20.0
"""A positive range is logarithmic if its ends are so many times apart."""
_STATES = {
    "COMPLETED": TrialState.COMPLETE,
    "PRUNED": TrialState.PRUNED,
    "RUNNING": TrialState.RUNNING,
    "QUEUED": TrialState.WAITING,
}


def export_optuna(study: StudyRow, trials: Sequence[TrialRow], storage: str) -> int:
    """Write the study under its own name; returns the number of trials.

    storage: a URL of Optuna's (`sqlite:///optuna.db`), which must not be a database of sweeper's:
    both have a table called `studies`. Raises InputError where the name is taken there, or the
    storage cannot be used.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        target = optuna.create_study(
            storage=storage,
            study_name=study.name,
            directions=[StudyDirection[d.upper()] for d in study.objectives.values()],
        )
    except optuna.exceptions.DuplicatedStudyError:
        raise InputError(
            f"{storage} holds a study {study.name!r} already; name another file"
        ) from None
    except Exception as error:  # whatever the storage's driver raises
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{storage} cannot be used as an Optuna storage: {line}") from error
    with warnings.catch_warnings():
        # Experimental for three years; without it the dashboard calls them Objective 0 and 1.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        target.set_metric_names(list(study.objectives))
    target.set_user_attr("sweeper.environment", study.env)
    target.set_user_attr("sweeper.budget_seconds", study.budget_seconds)
    target.set_user_attr("sweeper.budget_env_steps", study.budget_env_steps)
    distributions = _distributions(trials)
    target.add_trials([_frozen(study, trial, distributions) for trial in trials])
    return len(trials)


def _frozen(
    study: StudyRow, trial: TrialRow, distributions: Mapping[str, BaseDistribution]
) -> FrozenTrial:
    values = [value_of(trial, metric) for metric in study.objectives]
    known = [value for value in values if value is not None and math.isfinite(value)]
    state = _STATES.get(trial.status, TrialState.FAIL)
    if state is TrialState.COMPLETE and len(known) < len(values):
        state = TrialState.FAIL  # Optuna has no complete trial without all of its values
    params = {path: _value(distributions[path], value) for path, value in trial.params.items()}
    frozen = optuna.trial.create_trial(
        state=state,
        values=known if state is TrialState.COMPLETE else None,
        params=params,
        distributions={path: distributions[path] for path in params},
        user_attrs={
            "sweeper.number": trial.number,
            "sweeper.status": trial.status,
            "sweeper.feasible": trial.feasible,
            "sweeper.origin": trial.origin,
            "sweeper.reason": trial.reason,
            "sweeper.config": trial.config_json,
        }
        | {name: value_of(trial, name) for name in METRICS},
        constraints={"feasible": 0.0 if trial.feasible else 1.0}
        if state is TrialState.COMPLETE
        else None,
    )
    frozen.datetime_start = trial.asked_at.replace(tzinfo=None)  # Optuna's are naive
    if state.is_finished():
        frozen.datetime_complete = (trial.ended_at or trial.asked_at).replace(tzinfo=None)
    return frozen


def _distributions(trials: Sequence[TrialRow]) -> dict[str, BaseDistribution]:
    values: dict[str, list[ParamValue]] = {}
    for trial in trials:
        for path, value in trial.params.items():
            values.setdefault(path, []).append(value)
    return {path: _distribution(column) for path, column in values.items()}


def _distribution(column: Sequence[ParamValue]) -> BaseDistribution:
    numbers = [v for v in column if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(column):
        return CategoricalDistribution(sorted({str(value) for value in column}))
    low, high = min(numbers), max(numbers)
    log = low > 0 and high / low >= _LOG_SPAN
    if all(isinstance(value, int) for value in numbers):
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(float(low), float(high), log=log)


def _value(distribution: BaseDistribution, value: ParamValue) -> ParamValue:
    return str(value) if isinstance(distribution, CategoricalDistribution) else value
