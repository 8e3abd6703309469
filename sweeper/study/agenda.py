"""What a study does next, from what is known so far: the file's own trials, then re-runs of
those that the front hangs on, as far as their share allows, then what the sampler suggests."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sweeper.core.records import RunStatus
from sweeper.report.metrics import METRICS
from sweeper.store.rows import TrialRow
from sweeper.study.outcome import PastTrials, Requirements, has_budget, objectives_of
from sweeper.study.rebuild import PastTrial
from sweeper.study.replicate import Candidate, next_replicate
from sweeper.study.sampler import Sampler, Suggestion
from sweeper.study.spec import Configuration, LoadedStudy, most_runs

Objectives = tuple[float, ...]


class Again(NamedTuple):
    """Another run of a trial, with another seed."""

    number: int


Next = Configuration | Suggestion | Again


class Agenda:
    """Chooses what to run; asked again whenever there is room for a run."""

    def __init__(
        self,
        loaded: LoadedStudy,
        *,
        target_trials: int | None,
        at_once: int,
        former: Sequence[PastTrial] = (),
    ) -> None:
        """`at_once`: trials that run at the same time. `former`: of another study."""
        self._loaded = loaded
        self._spec = spec = loaded.spec
        self._target = target_trials
        self._past = PastTrials(spec)
        self._maximize = [direction == "maximize" for direction in spec.objectives.values()]
        self.sampler = Sampler(
            loaded.space,
            spec.objectives,
            spec.sampler,
            n_startup=_startup_trials(at_once, target_trials),
            former=former,
        )

    def next(
        self,
        trials: Sequence[TrialRow],
        *,
        n_repeats: int,
        repeated: Mapping[int, Sequence[Objectives]],
        busy: Collection[int],
        requirements: Requirements,
    ) -> Next | None:
        """What to run, or None if nothing is wanted as things stand.

        n_repeats: runs beyond a trial's first that were begun, ended or not.
        repeated: trial number -> the objectives of each run, where there are several.
        busy: numbers of trials with a run under way or waiting.
        requirements: as they are now.
        """
        named = sum(trial.origin in ("baseline", "enqueued") for trial in trials)
        if named < len(self._loaded.queue):
            return self._loaded.queue[named] if self._may_grow(len(trials), n_repeats) else None
        if n_repeats + 1 <= self._spec.replicate.share * (len(trials) + n_repeats + 1):
            number = next_replicate(
                self._candidates(trials, repeated, busy), self._maximize, self._spec.replicate
            )
            if number is not None:
                return Again(number)
        if not self._may_grow(len(trials), n_repeats):
            return None
        suggestion = self.sampler.ask(self._past(trials, requirements), repeats=n_repeats)
        if suggestion.duplicate_of is not None:
            return Again(suggestion.duplicate_of)
        return suggestion

    def _may_grow(self, n_trials: int, n_repeats: int) -> bool:
        """A space may hold fewer trials than were asked for: then runs are what ends it."""
        if self._target is None:
            return True
        most = most_runs(self._spec, self._target)
        return n_trials < self._target and n_trials + n_repeats < most

    def _candidates(
        self,
        trials: Sequence[TrialRow],
        repeated: Mapping[int, Sequence[Objectives]],
        busy: Collection[int],
    ) -> list[Candidate]:
        candidates: list[Candidate] = []
        for trial in trials:
            if trial.status != RunStatus.COMPLETED or not trial.feasible or trial.contended:
                continue
            values = objectives_of(trial, self._spec)
            if values is None or not has_budget(trial, self._spec):
                continue
            runs = tuple(map(self._scaled, repeated.get(trial.number) or (values,)))
            candidates.append(Candidate(trial.number, runs, int(trial.number in busy)))
        return candidates

    def _scaled(self, values: Objectives) -> Objectives:
        """On a scale on which the noise is alike for all trials: the logarithm of what varies
        by shares, such as a speed."""
        return tuple(
            math.log(max(value, 1e-12)) if METRICS[metric].relative else value
            for metric, value in zip(self._spec.objectives, values, strict=True)
        )


def _startup_trials(at_once: int, target_trials: int | None) -> int:
    """Trials before the sampler learns: enough to learn from, at most a third of all."""
    wanted = max(10, 2 * at_once)
    return wanted if target_trials is None else min(wanted, target_trials // 3)
