"""What to try next.

A suggestion depends on the seed and the past trials alone: a killed launcher loses nothing,
and a changed search space keeps whatever of the old trials still fits it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sweeper.core.clock import Clock, MonotonicClock
from sweeper.study.designs import grid_point, random_point, sobol_point
from sweeper.study.parameters import Params, ParamValue
from sweeper.study.rebuild import MIN_FINISHED, PastTrial, RebuiltStudy
from sweeper.study.space import SearchSpace
from sweeper.study.spec import Direction, Objective, SamplerSpec
from sweeper.trial.spec import TrialSpec

logger = logging.getLogger(__name__)

Kind = Literal["tpe", "gp", "nsga2", "qmc", "random", "grid"]


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
        former: Sequence[PastTrial] = (),
        clock: Clock | None = None,
    ) -> None:
        """`objectives` are in the order of `PastTrial.values`; `n_startup` trials, of any
        origin, come before tpe, gp or nsga2 has a say.

        `former`: trials of another study (numbers below 1) to learn from, as if they had
        come first.
        """
        self._space = space
        self._spec = spec
        self._n_startup = n_startup
        self._former = tuple(former)
        self._clock = MonotonicClock() if clock is None else clock
        self._rebuilt = RebuiltStudy(space, list(objectives.values()))
        self._kind: Kind = "tpe" if spec.kind == "auto" else spec.kind
        if spec.kind == "auto":
            logger.info("sampler auto: tpe, the surest on mixed parameters and few noisy trials")

    def ask(self, past: Sequence[PastTrial], *, repeats: int = 0) -> Suggestion:
        """The next trial, given every trial of the study so far, in the order asked.

        `repeats` is how many runs of earlier trials were made beyond their first: without it,
        a past that has not grown would bring the same suggestion again.
        """
        known = [*self._former, *past]
        finished = sum(trial.state != "running" for trial in known)
        learns = self._kind in ("tpe", "gp", "nsga2")
        starting = learns and (len(known) < self._n_startup or finished < MIN_FINISHED)
        kind: Kind = "qmc" if starting else self._kind
        before = self._clock.now()
        params = self._space.repair(self._params(kind, past, known, len(past) + repeats))
        self._watch(kind, self._clock.now() - before)
        same = (t.number for t in past if self._rebuilt.fit(t) == params)
        return Suggestion(
            params=params,
            trial=self._space.resolve(params),
            origin="startup" if starting else "sampler",
            sampler=kind,
            duplicate_of=next(same, None),
        )

    def _watch(self, kind: Kind, seconds: float) -> None:
        """Hand over to a faster sampler after a suggestion that took too long. (It is not
        interrupted: the next one would take as long, and then this one would be wasted.)"""
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

    def _params(
        self, kind: Kind, past: Sequence[PastTrial], known: Sequence[PastTrial], index: int
    ) -> Params:
        seed = self._spec.seed
        match kind:
            case "qmc":
                return sobol_point(self._space, seed=seed, index=index)
            case "random":
                return random_point(self._space, seed=seed, index=index)
            case "grid":
                return grid_point(self._space, [self._rebuilt.fit(trial) for trial in past])
            case _:
                stream = int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
                return self._rebuilt.suggest(kind, known, seed=stream)
