"""What to try next. The only file that imports optuna.

The results database holds the truth and Optuna holds none: at every `ask` an in-memory study
is rebuilt from the past trials (500 of them take some tens of milliseconds). So a suggestion
depends on the seed and the past alone, a killed launcher loses nothing, and a changed search
space keeps whatever of the old trials still fits it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from sweeper.core.clock import Clock, MonotonicClock
from sweeper.study.designs import grid_point, random_point, sobol_point
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
from sweeper.study.spec import Direction, Objective, SamplerSpec
from sweeper.trial.spec import TrialSpec

logger = logging.getLogger(__name__)

Kind = Literal["tpe", "gp", "nsga2", "qmc", "random", "grid"]

MIN_FINISHED = 2
"""Trials with an outcome below which there is nothing to learn from."""
POPULATION = 20
"""Trials a generation of nsga2; Optuna's 50 would leave a study of 100 hardly two."""


@dataclass(frozen=True, slots=True)
class PastTrial:
    """A trial that was asked for earlier, as far as it is known by now."""

    number: int
    params: Params
    state: Literal["complete", "running", "failed"]
    """`failed` is every end without a usable result: diverged, error, time-out."""
    values: tuple[float, ...] | None = None
    """The objectives, in the order of the study; given when complete."""
    feasible: bool = True
    """Whether every constraint holds."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to run next."""

    params: dict[str, ParamValue]
    trial: TrialSpec
    """The params in their trial, ready to run."""
    origin: Literal["startup", "sampler"]
    sampler: Kind
    """Who suggested it."""
    duplicate_of: int | None
    """Number of an earlier trial with the same params: this is another run of that one."""


class Sampler:
    """Suggests trials: quasi-random ones to start with, then by `spec.kind`.

    Every suggestion is repaired to one that can run. The same seed and the same past give the
    same suggestion, unless a time limit was exceeded on the way.
    """

    def __init__(
        self,
        space: SearchSpace,
        objectives: Mapping[Objective, Direction],
        spec: SamplerSpec,
        *,
        n_startup: int = 10,
        clock: Clock | None = None,
    ) -> None:
        """`objectives` are in the order of `PastTrial.values`; `n_startup` trials, of any
        origin, come before tpe, gp or nsga2 has a say."""
        self._space = space
        self._directions = list(objectives.values())
        self._distributions = {
            path: distribution
            for path, parameter in space.parameters.items()
            if (distribution := _distribution(parameter)) is not None
        }
        self._spec = spec
        self._n_startup = n_startup
        self._clock = MonotonicClock() if clock is None else clock
        self._kind: Kind = "tpe" if spec.kind == "auto" else spec.kind
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if spec.kind == "auto":
            logger.info("sampler auto: tpe, the surest on mixed parameters and few noisy trials")

    def ask(self, past: Sequence[PastTrial], *, repeats: int = 0) -> Suggestion:
        """The next trial, given every trial of the study so far, in the order asked.

        `repeats` is how many suggestions were duplicates of an earlier trial: without it, a
        past that has not grown would bring the same one again.
        """
        finished = sum(trial.state != "running" for trial in past)
        learns = self._kind in ("tpe", "gp", "nsga2")
        starting = learns and (len(past) < self._n_startup or finished < MIN_FINISHED)
        kind: Kind = "qmc" if starting else self._kind
        before = self._clock.now()
        params = self._space.repair(self._params(kind, past, len(past) + repeats))
        self._watch(kind, self._clock.now() - before)
        same = (t.number for t in past if self._space.fit(t.params) == params)
        return Suggestion(
            params=params,
            trial=self._space.resolve(params),
            origin="startup" if starting else "sampler",
            sampler=kind,
            duplicate_of=next(same, None),
        )

    def _watch(self, kind: Kind, seconds: float) -> None:
        if seconds <= self._spec.time_limit or kind in ("qmc", "random"):
            return
        self._kind = "tpe" if kind == "gp" else "qmc"
        logger.warning(
            "sampler %s took %.1f s, more than its time limit of %g s: %s takes over",
            kind,
            seconds,
            self._spec.time_limit,
            self._kind,
        )

    def _params(self, kind: Kind, past: Sequence[PastTrial], index: int) -> Params:
        seed = self._spec.seed
        match kind:
            case "qmc":
                return sobol_point(self._space, seed=seed, index=index)
            case "random":
                return random_point(self._space, seed=seed, index=index)
            case "grid":
                return grid_point(self._space, [self._space.fit(t.params) for t in past])
            case _:
                return self._optuna(kind, past, index)

    # The rebuilt study: Optuna's names, values and states for ours.

    def _optuna(self, kind: Kind, past: Sequence[PastTrial], index: int) -> Params:
        seed = int(np.random.SeedSequence([self._spec.seed, index]).generate_state(1)[0])
        sampler = _optuna_sampler(kind, seed)
        study = optuna.create_study(directions=self._directions, sampler=sampler)
        study.add_trials(self._rebuilt(kind, past))
        params: dict[str, ParamValue] = {}
        # Where nothing is feasible gp divides 0 by 0; it copes with the NaN, numpy warns of it.
        with np.errstate(invalid="ignore"):
            trial = study.ask()
            for path, parameter in self._space.parameters.items():
                if self._space.is_active(path, params):
                    params[path] = _suggest(trial, path, parameter)
        return params

    def _rebuilt(self, kind: Kind, past: Sequence[PastTrial]) -> Iterator[FrozenTrial]:
        """Past trials for Optuna.

        Its samplers take no notice of failed trials, so one that failed is told as complete
        and infeasible: with the worst values seen, to bend no model, and a violated
        constraint. Either all trials carry the constraint, as gp insists, or none needs it.
        """
        scores = {trial.number: _score(trial) for trial in past}
        worst = self._worst([score for score in scores.values() if score is not None])
        outcomes = [trial for trial in past if trial.state != "running"]
        constrained = any(scores[t.number] is None or not t.feasible for t in outcomes)
        n_told = 0
        for trial in past:
            params = self._space.fit(trial.params)
            # gp and nsga2 model what all trials have in common: one that lacks a parameter
            # would take that parameter out of the model.
            if kind != "tpe" and self._lacks_some(params):
                continue
            distributions = {p: d for p, d in self._distributions.items() if p in params}
            told = {p: _to_optuna(self._space.parameters[p], params[p]) for p in distributions}
            if trial.state == "running":
                yield optuna.trial.create_trial(
                    state=TrialState.RUNNING, params=told, distributions=distributions
                )
                continue
            score = scores[trial.number]
            violation = 0.0 if trial.feasible and score is not None else 1.0
            yield optuna.trial.create_trial(
                values=worst if score is None else score,
                params=told,
                distributions=distributions,
                constraints={"feasible": violation} if constrained else None,
                system_attrs=_generation(n_told) if kind == "nsga2" else None,
            )
            n_told += 1

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


def _score(trial: PastTrial) -> list[float] | None:
    """The objectives of a trial that has them all, finite; Optuna refuses NaN, and would leave
    the trial running for ever."""
    if trial.state != "complete" or trial.values is None:
        return None
    return list(trial.values) if all(map(math.isfinite, trial.values)) else None


def _optuna_sampler(kind: Kind, seed: int) -> optuna.samplers.BaseSampler:
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
        case _:
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=MIN_FINISHED)


def _generation(n_complete: int) -> dict[str, int]:
    """Optuna keeps the generation of a trial among its attributes, which the rebuild lost."""
    key = optuna.samplers.NSGAIISampler._get_generation_key()
    return {key: n_complete // POPULATION}


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


def _key(params: Params) -> str:
    return canonical_text(sorted(params.items()))
