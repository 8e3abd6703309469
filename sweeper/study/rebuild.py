"""Past trials as Optuna has them. The only file that imports optuna.

The results database holds the truth and Optuna holds none: for every question an in-memory
study is put together from the past trials. A trial is translated once and again only when
something about it has changed, so that a question over 5,000 of them stays cheap.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from sweeper.study.parameters import (
    FloatParameter,
    IntParameter,
    Parameter,
    Params,
    ParamValue,
    Pow2Parameter,
    canonical_text,
)
from sweeper.study.space import SearchSpace
from sweeper.study.spec import Direction

LearningKind = Literal["tpe", "gp", "nsga2"]

MIN_FINISHED = 2
"""Trials with an outcome below which there is nothing to learn from."""
POPULATION = 20
"""Trials a generation of nsga2; Optuna's 50 would leave a study of 100 hardly two."""
_WHENEVER = datetime(2000, 1, 1)  # noqa: DTZ001 - Optuna's are naive; no sampler looks at it
PRUNED_VIOLATION, FAILED_VIOLATION = 1.0, 2.0
"""What counts as an infeasible trial's violation when it has none of its own: a failure is
worse than being beaten half-way. (Real ones add up to shares of the worst seen.)"""


@dataclass(frozen=True, slots=True)
class PastTrial:
    """A trial that was asked for earlier, as far as it is known by now."""

    number: int
    params: Params
    state: Literal["complete", "running", "pruned", "failed"]
    """`failed` is every end without a usable result: diverged, error, time-out."""
    values: tuple[float, ...] | None = None
    """The objectives, in the order of the study, means over its runs; given when complete."""
    violations: Mapping[str, float] = field(default_factory=dict)
    """Constraint -> how far it is violated; <= 0 is satisfied."""

    @property
    def score(self) -> list[float] | None:
        """The objectives of a trial that has them all, finite; Optuna refuses NaN, and would
        leave the trial running for ever."""
        if self.state != "complete" or self.values is None:
            return None
        return list(self.values) if all(map(math.isfinite, self.values)) else None


class RebuiltStudy:
    """The past of one search space, ready to be asked."""

    def __init__(self, space: SearchSpace, directions: Sequence[Direction]) -> None:
        """`directions`: of each of `PastTrial.values`."""
        self._space = space
        self._directions = list(directions)
        self._distributions = {
            path: distribution
            for path, parameter in space.parameters.items()
            if (distribution := _distribution(parameter)) is not None
        }
        self._fits: dict[int, dict[str, ParamValue]] = {}
        self._told: dict[int, tuple[Any, FrozenTrial]] = {}
        optuna.logging.set_verbosity(optuna.logging.ERROR)

    def suggest(self, kind: LearningKind, past: Sequence[PastTrial], *, seed: int) -> Params:
        """The sampler's choice; not yet repaired."""
        study = self._study(self._trials(kind, past), _sampler(kind, seed))
        params: dict[str, ParamValue] = {}
        # Where nothing is feasible gp divides 0 by 0; it copes with the NaN, numpy warns of it.
        with np.errstate(invalid="ignore"):
            trial = study.ask()
            for path, parameter in self._space.parameters.items():
                if self._space.is_active(path, params):
                    params[path] = _suggest(trial, path, parameter)
        return params

    def importance(
        self, past: Sequence[PastTrial], objective: int, *, best: float, among: float
    ) -> dict[str, float]:
        """Parameter -> its share in what tells the best trials from the others (PED-ANOVA,
        Watanabe et al. 2023), for the objective of that index.

        best, among: the best share of the trials is told from the best `among` share, so
        that `among` < 1 leaves the worst out of account. Trials without a score are left out.
        """
        scored = [trial for trial in past if trial.score is not None]
        study = self._study(self._trials("tpe", scored), None)
        sign = -1.0 if self._directions[objective] == "maximize" else 1.0
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(
            target_quantile=best, region_quantile=among
        )
        with warnings.catch_warnings():  # of too few trials, for which it answers with zeros
            warnings.simplefilter("ignore")
            return optuna.importance.get_param_importances(
                study, evaluator=evaluator, target=lambda trial: sign * trial.values[objective]
            )

    def fit(self, trial: PastTrial) -> dict[str, ParamValue]:
        """What of a trial's params is in the space."""
        if trial.number not in self._fits:
            self._fits[trial.number] = self._space.fit(trial.params)
        return self._fits[trial.number]

    def _study(
        self, trials: Iterator[FrozenTrial], sampler: optuna.samplers.BaseSampler | None
    ) -> optuna.Study:
        storage = optuna.storages.InMemoryStorage()
        study = optuna.create_study(
            storage=storage, directions=self._directions, sampler=sampler, study_name="past"
        )
        study_id = storage.get_study_id_from_name("past")
        for trial in trials:  # not `add_trials`, which checks and copies each again
            storage.create_new_trial(study_id, template_trial=trial)
        return study

    def _trials(self, kind: LearningKind, past: Sequence[PastTrial]) -> Iterator[FrozenTrial]:
        """Past trials for Optuna.

        Its samplers take no notice of failed trials, so one that failed or was pruned is told
        as complete and infeasible: with the worst values seen, to bend no model, and a
        violated constraint. Either all trials carry the constraint, as gp insists, or none
        needs it.
        """
        worst = self._worst([score for trial in past if (score := trial.score) is not None])
        violation_of = _violations(past)
        constrained = any(violation_of.values())
        n_told = 0
        for trial in past:
            params = self.fit(trial)
            # gp and nsga2 model what all trials have in common: one that lacks a parameter
            # would take that parameter out of the model.
            if kind != "tpe" and self._lacks_some(params):
                continue
            values: list[float] | None = None
            violation: float | None = None
            generation: int | None = None
            if trial.state != "running":
                values = trial.score or worst
                violation = violation_of[trial.number] if constrained else None
                generation = n_told // POPULATION if kind == "nsga2" else None
                n_told += 1
            yield self._tell(trial.number, params, (values, violation, generation))

    def _tell(self, number: int, params: Params, outcome: Any) -> FrozenTrial:
        """The trial as translated before, if it has the same outcome still."""
        known = self._told.get(number)
        if known is not None and known[0] == outcome:
            return known[1]
        values, violation, generation = outcome
        distributions = {p: d for p, d in self._distributions.items() if p in params}
        trial = _Told(
            number=-1,  # the storage gives it both
            trial_id=-1,
            state=TrialState.RUNNING if values is None else TrialState.COMPLETE,
            value=None,
            values=values,
            datetime_start=_WHENEVER,
            datetime_complete=None if values is None else _WHENEVER,
            params={p: _to_optuna(self._space.parameters[p], params[p]) for p in distributions},
            distributions=distributions,
            user_attrs={},
            system_attrs={} if generation is None else {_generation_key(): generation},
            intermediate_values={},
        )
        if violation is not None:
            trial.set_constraint("feasible", violation)
        self._told[number] = outcome, trial
        return trial

    def _lacks_some(self, params: Params) -> bool:
        return any(
            path not in params and self._space.is_active(path, params)
            for path in self._space.parameters
        )

    def _worst(self, scored: Sequence[Sequence[float]]) -> list[float]:
        """The worst value of each objective; 0 before there is any."""
        if not scored:
            return [0.0 for _ in self._directions]
        values = np.asarray(scored)  # [trials, objectives]
        maximized = np.array(self._directions) == "maximize"
        return [float(v) for v in np.where(maximized, values.min(axis=0), values.max(axis=0))]


class _Told(FrozenTrial):
    """A trial that storages take as it is: they copy what they are given, ours is ours."""

    def __deepcopy__(self, memo: object) -> _Told:
        return self


def _violations(past: Sequence[PastTrial]) -> dict[int, float]:
    """Trial number -> how infeasible it is, 0 for feasible: each constraint's violation as a
    share of the greatest seen, summed, since they come in different units."""
    greatest: dict[str, float] = {}
    for trial in past:
        for name, violation in trial.violations.items():
            greatest[name] = max(greatest.get(name, 0.0), violation)
    found: dict[int, float] = {}
    for trial in past:
        if trial.state == "running":
            continue
        shares = [v / greatest[name] for name, v in trial.violations.items() if v > 0]
        found[trial.number] = sum(shares)
        if trial.state == "pruned":
            found[trial.number] = PRUNED_VIOLATION
        elif trial.score is None:
            found[trial.number] = max(sum(shares), FAILED_VIOLATION)
    return found


def _sampler(kind: LearningKind, seed: int) -> optuna.samplers.BaseSampler:
    match kind:
        case "gp":
            return optuna.samplers.GPSampler(
                seed=seed,
                n_startup_trials=MIN_FINISHED,
                # For conditional parameters, which the Gaussian process leaves out.
                independent_sampler=optuna.samplers.TPESampler(
                    seed=seed, n_startup_trials=MIN_FINISHED
                ),
                warn_independent_sampling=False,
            )
        case "nsga2":
            return optuna.samplers.NSGAIISampler(seed=seed, population_size=POPULATION)
        case "tpe":
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=MIN_FINISHED)


def _generation_key() -> str:
    """Where Optuna keeps the generation of a trial, which the rebuild must give back."""
    return optuna.samplers.NSGAIISampler._get_generation_key()


def _distribution(parameter: Parameter) -> BaseDistribution | None:
    """Optuna's range for a parameter; None if there is nothing to sample."""
    if parameter.values is not None and len(parameter.values) == 1:
        return None
    match parameter:
        case FloatParameter(low=low, high=high, log=log, step=step):
            if step is None:
                return FloatDistribution(low, high, log=log)
            assert parameter.values is not None
            return IntDistribution(0, len(parameter.values) - 1)
        case IntParameter(low=low, high=high, log=log, step=step):
            return IntDistribution(low, high - (high - low) % step, log=log, step=step)
        case Pow2Parameter(exponents=(low, high)):
            return IntDistribution(low, high)
        case _:
            return CategoricalDistribution(
                [canonical_text(value) for value in parameter.values or ()]
            )


def _to_optuna(parameter: Parameter, value: ParamValue) -> float | int | str:
    match parameter:
        case Pow2Parameter() if isinstance(value, int):
            return value.bit_length() - 1
        case FloatParameter(step=float()) if parameter.values is not None:
            return parameter.values.index(value)
        case FloatParameter() | IntParameter() if isinstance(value, int | float):
            return value
        case _:
            return canonical_text(value)


def _suggest(trial: optuna.Trial, path: str, parameter: Parameter) -> ParamValue:
    distribution = _distribution(parameter)
    values = parameter.values
    match distribution:
        case None:
            assert values is not None
            return values[0]
        case FloatDistribution(low=low, high=high, log=log):
            return trial.suggest_float(path, low, high, log=log)
        case IntDistribution(low=low, high=high, log=log, step=step):
            number = trial.suggest_int(path, low, high, log=log, step=step)
            if isinstance(parameter, Pow2Parameter):
                return int(2**number)
            return number if isinstance(parameter, IntParameter) else (values or ())[number]
        case CategoricalDistribution(choices=choices):
            return (values or ())[choices.index(trial.suggest_categorical(path, choices))]
    raise AssertionError(distribution)
