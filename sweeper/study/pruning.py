"""Which runs of a study its rungs may end, and what its earlier launches saw there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Engine

from sweeper.core.records import Measurement
from sweeper.store import launches
from sweeper.store.rows import TrialRow
from sweeper.study.outcome import has_budget
from sweeper.study.pruner import Pruned, RungPoint, Rungs
from sweeper.study.recorder import LiveRun
from sweeper.study.seeds import run_seed
from sweeper.study.spec import StudySpec


class Pruning:
    """Ends first runs that fall behind; the baseline and re-runs must be comparable."""

    def __init__(
        self, spec: StudySpec, reader: Engine, study_id: int, trials: Mapping[int, TrialRow]
    ) -> None:
        """trials: the study's by number, as they are known at any time."""
        self._spec = spec
        self._trials = trials
        self._rungs = Rungs(spec.pruner.rungs, self._seen(reader, study_id))

    def behind(self, live: LiveRun, measurement: Measurement) -> Pruned | None:
        """Whether the run is to end here, and why."""
        if live.seed_kind != "tuning" or not self._is_judged(live.number, live.spec.seed):
            return None
        return self._rungs.reach(live.number, measurement)

    def _seen(self, reader: Engine, study_id: int) -> Iterator[RungPoint]:
        for rung, share in enumerate(self._spec.pruner.rungs):
            for point in launches.points_at(reader, study_id, share):
                trial = self._trials[point.number]
                if self._is_judged(point.number, point.seed) and has_budget(trial, self._spec):
                    yield RungPoint(
                        point.number, rung, point.training_return, point.steps_per_second
                    )

    def _is_judged(self, number: int, seed: int) -> bool:
        """Whether a trial's run on that seed is its first, and not the baseline's."""
        is_first = seed == run_seed(self._spec.trial.seed, number)
        return is_first and self._trials[number].origin != "baseline"
