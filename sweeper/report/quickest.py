"""Which trial is soonest as good as the baseline, by the learning curves in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from sweeper.report.speedup import SpeedUp, speed_up
from sweeper.store import queries
from sweeper.store.rows import TrialRow

MAX_COMPARED = 20
"""Speed-up reads learning curves; of a longer front only the first so many are compared."""


@dataclass(frozen=True, slots=True)
class Quickest:
    """The trial that is soonest as good as the baseline."""

    trial: TrialRow
    baseline: TrialRow
    result: SpeedUp
    seed_kind: str
    """Whose curves were compared."""

    @property
    def has_other_budget(self) -> bool:
        """Whether the baseline had a budget of its own, and with it its own schedule."""
        return _budget(self.trial) != _budget(self.baseline)


def baseline_of(trials: Sequence[TrialRow]) -> TrialRow | None:
    """The completed baseline; None without one."""
    return next((t for t in trials if t.origin == "baseline" and t.status == "COMPLETED"), None)


def find_quickest(
    engine: Engine, trials: Sequence[TrialRow], candidates: Sequence[TrialRow]
) -> Quickest | None:
    """Of the candidates and of the trials with test seeds; None without a baseline to compare.

    Trials that have been run with test seeds are compared by those alone: the quickest of many
    on the seeds of the search is partly the luckiest. Only without any do tuning seeds count.
    """
    baseline = baseline_of(trials)
    if baseline is None:
        return None
    tested = [trial for trial in trials if trial.n_test_runs and trial is not baseline]
    rows = list({t.trial_id: t for t in (*tested, *candidates) if t is not baseline}.values())
    curves = queries.curves(engine, [baseline.trial_id, *(t.trial_id for t in rows)])
    for kind in ("test", "tuning"):
        of_kind = {
            trial_id: [curve for curve in runs if curve[0].seed_kind == kind]
            for trial_id, runs in curves.items()
        }
        reference = of_kind.get(baseline.trial_id) or curves.get(baseline.trial_id, [])
        found = [
            Quickest(trial, baseline, result, kind)
            for trial in rows
            if (result := speed_up(reference, of_kind.get(trial.trial_id, []))) is not None
        ]
        if found:
            return max(found, key=lambda each: each.result.ratio)
    return None


def _budget(trial: TrialRow) -> tuple[float | None, int | None]:
    return trial.budget_seconds, trial.budget_env_steps
