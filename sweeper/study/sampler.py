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
from sweeper.study.spec import Configuration, Direction, Objective, SamplerSpec
from sweeper.trial.spec import TrialSpec

logger = logging.getLogger(__name__)

Origin = Literal["baseline", "enqueued", "startup", "sampler"]
Kind = Literal["tpe", "gp", "nsga2", "qmc", "random", "grid"]

POPULATION = 20
"""Trials a generation of nsga2; Optuna's 50 would leave a study of 100 hardly two."""


@dataclass(frozen=True, slots=True)
class PastTrial:
    """A trial that was asked for earlier, as far as it is known by now."""

    number: int
    params: Mapping[str, ParamValue]
    origin: Origin
    state: Literal["complete", "running", "failed"]
    """`failed` covers every end without a usable result: diverged, error, time-out."""
    values: tuple[float | None, ...] | None = None
    """The objectives, in the order of the study; needed when complete."""
    violations: tuple[float, ...] = ()
    """One number a constraint, always in the same order; above 0 is a violation."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to run next."""

    params: Mapping[str, ParamValue]
    trial: TrialSpec
    """The params in their trial, ready to run."""
    origin: Origin
    sampler: str
    """Who suggested it: a sampler's kind, or `user`."""
    duplicate_of: int | None
    """Number of an earlier trial with the same params: this is another run of that one."""


def startup_trials(n_trials: int | None, concurrency: int) -> int:
    """How many trials come before the sampler has a say: max(10, 2 x concurrency), at most a
    third of the study's (None: not known)."""
    wanted = max(10, 2 * concurrency)
    return wanted if n_trials is None else min(wanted, n_trials // 3)


class Sampler:
    """Suggests trials: what the user enqueued, then quasi-random ones, then by `spec.kind`.

    Every suggestion is repaired to one that can run. Same seed and same past, same
    suggestion, unless a time limit was exceeded.
    """

    def __init__(
        self,
        space: SearchSpace,
        objectives: Mapping[Objective, Direction],
        spec: SamplerSpec,
        *,
        queue: Sequence[Configuration] = (),
        n_startup: int = 10,
        clock: Clock | None = None,
    ) -> None:
        """`objectives`: metric -> "maximize" | "minimize", in the order of `values`."""
        self._space = space
        self._directions = list(objectives.values())
        self._spec = spec
        self._queue = tuple(queue)
        self._n_startup = n_startup
        self._clock = MonotonicClock() if clock is None else clock
        self._kind: Kind = "tpe" if spec.kind == "auto" else spec.kind
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if spec.kind == "auto":
            logger.info("sampler auto: tpe, which needs the fewest trials with mixed parameters")

    def ask(self, past: Sequence[PastTrial]) -> Suggestion:
        """The next trial, given every trial of the study so far, in the order asked."""
        queued = self._next_queued(past)
        if queued is not None:
            return self._suggestion(queued.params, past, queued.origin, "user", queued.trial)
        finished = [trial for trial in past if trial.state != "running"]
        model_based = self._kind in ("tpe", "gp", "nsga2")
        if model_based and (len(past) < self._n_startup or len(finished) < 2):
            return self._suggestion(self._params("qmc", past), past, "startup", "qmc")
        kind = self._kind
        before = self._clock.now()
        params = self._params(kind, past)
        self._watch(kind, self._clock.now() - before)
        return self._suggestion(params, past, "sampler", kind)

    def _suggestion(
        self,
        params: Params,
        past: Sequence[PastTrial],
        origin: Origin,
        sampler: str,
        trial: TrialSpec | None = None,
    ) -> Suggestion:
        if trial is None:
            params = self._space.repair(params)
            trial = self._space.resolve(params)
        same = (
            t.number for t in past if t.origin != "baseline" and self._space.fit(t.params) == params
        )
        duplicate_of = None if origin == "baseline" else next(same, None)
        return Suggestion(dict(params), trial, origin, sampler, duplicate_of)

    def _next_queued(self, past: Sequence[PastTrial]) -> Configuration | None:
        """The first configuration of the queue that was never asked for. They are known by
        their params, so that a study file may gain some later."""
        has_baseline = any(trial.origin == "baseline" for trial in past)
        asked = self._asked(past)
        for configuration in self._queue:
            if configuration.origin == "baseline":
                if not has_baseline:
                    return configuration
            elif configuration.params not in asked:
                return configuration
        return None

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

    def _params(self, kind: Kind, past: Sequence[PastTrial]) -> Params:
        seed, index = self._spec.seed, len(past)
        match kind:
            case "qmc":
                return sobol_point(self._space, seed=seed, index=index)
            case "random":
                return random_point(self._space, seed=seed, index=index)
            case "grid":
                return grid_point(self._space, self._asked(past))
            case _:
                return self._optuna(kind, past)

    def _asked(self, past: Sequence[PastTrial]) -> list[dict[str, ParamValue]]:
        """What of the past is in the space; the baseline may be outside of it."""
        return [self._space.fit(trial.params) for trial in past if trial.origin != "baseline"]

    # The rebuilt study: Optuna's names, values and states for ours.

    def _optuna(self, kind: Kind, past: Sequence[PastTrial]) -> Params:
        seed = int(np.random.SeedSequence([self._spec.seed, len(past)]).generate_state(1)[0])
        sampler = _optuna_sampler(kind, seed)
        study = optuna.create_study(directions=self._directions, sampler=sampler)
        study.add_trials(self._rebuilt(kind, past))
        trial = study.ask()
        params: dict[str, ParamValue] = {}
        for path, parameter in self._space.parameters.items():
            if self._space.is_active(path, params):
                params[path] = _suggest(trial, path, parameter)
        return params

    def _rebuilt(self, kind: Kind, past: Sequence[PastTrial]) -> Iterator[FrozenTrial]:
        """Past trials for Optuna.

        Samplers take no notice of failed trials, so one that failed is told as complete and
        infeasible: with the worst values seen, to bend no model, and a violated constraint.
        All trials carry the same constraints, as gp insists, and none when all is well.
        """
        scored = [score for trial in past if (score := _score(trial)) is not None]
        n_constraints = max((len(trial.violations) for trial in past), default=0)
        constrained = len(scored) < sum(trial.state != "running" for trial in past) or any(
            violation > 0 for trial in past for violation in trial.violations
        )
        worst = self._worst(scored)
        n_complete = 0
        for trial in past:
            params = self._space.fit(trial.params)
            distributions = {
                path: distribution
                for path in params
                if (distribution := _distribution(self._space.parameters[path])) is not None
            }
            # gp and nsga2 model only what all trials have in common: a trial that lacks a
            # parameter would take that parameter out of the model.
            if kind != "tpe" and self._lacks_some(params):
                continue
            told = {p: _to_optuna(self._space.parameters[p], params[p]) for p in distributions}
            if trial.state == "running":
                yield optuna.trial.create_trial(
                    state=TrialState.RUNNING, params=told, distributions=distributions
                )
                continue
            score = _score(trial)
            violations = (*trial.violations, *[0.0] * n_constraints)[:n_constraints]
            constraints = {f"constraint {i}": v for i, v in enumerate(violations)}
            yield optuna.trial.create_trial(
                values=worst if score is None else score,
                params=told,
                distributions=distributions,
                constraints={"failed": float(score is None), **constraints}
                if constrained
                else None,
                system_attrs=_generation(n_complete) if kind == "nsga2" else None,
            )
            n_complete += 1

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
    values = [value for value in trial.values if value is not None and math.isfinite(value)]
    return values if len(values) == len(trial.values) else None


def _optuna_sampler(kind: Kind, seed: int) -> optuna.samplers.BaseSampler:
    match kind:
        case "gp":
            return optuna.samplers.GPSampler(
                seed=seed,
                n_startup_trials=2,
                # For conditional parameters, which the Gaussian process leaves out.
                independent_sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=2),
                warn_independent_sampling=False,
            )
        case "nsga2":
            return optuna.samplers.NSGAIISampler(seed=seed, population_size=POPULATION)
        case _:
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=2)


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
