"""Which trial is soonest as good as the baseline, by the learning curves in the database.

Only runs on the same hardware are compared: the factor is to be the configuration's, and not
the machine's as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from sweeper.report.hardware import hardware_of, on_the_same
from sweeper.report.pareto import candidates, has_study_budget, study_front
from sweeper.report.speedup import SpeedUp, speed_up
from sweeper.store import queries
from sweeper.store.rows import SlotRow, StudyRow, TrialRow

MAX_COMPARED = 20
"""Speed-up reads learning curves; of a longer front only the first so many are compared."""
_SEED_KINDS = ("test", "tuning")


@dataclass(frozen=True, slots=True)
class Quickest:
    """The trial that is soonest as good as the baseline."""

    trial: TrialRow
    baseline: TrialRow
    result: SpeedUp
    seed_kind: str
    """Whose curves were compared."""
    hardware: str | None
    """What all of them were measured on; None where that is not known."""

    @property
    def has_other_budget(self) -> bool:
        """Whether the baseline had a budget of its own, and with it its own schedule."""
        return _budget(self.trial) != _budget(self.baseline)


def baseline_of(trials: Sequence[TrialRow]) -> TrialRow | None:
    """The completed baseline; None without one."""
    return next((t for t in trials if t.origin == "baseline" and t.status == "COMPLETED"), None)


def find_quickest(
    engine: Engine, study: StudyRow, trials: Sequence[TrialRow], runs: Sequence[SlotRow]
) -> Quickest | None:
    """Of the trials with test seeds and of the front, both without those that have no run on
    the baseline's hardware; None without a baseline to compare.

    `runs`: of the study.
    """
    baseline = baseline_of(trials)
    if baseline is None:
        return None
    apart = {trial.trial_id for trial in _apart(baseline, trials, runs)}
    near = [trial for trial in trials if trial.trial_id not in apart]
    tested = [trial for trial in near if trial.n_test_runs]
    return quickest_of(engine, baseline, [*tested, *study_front(study, near)[:MAX_COMPARED]], runs)


def quickest_of(
    engine: Engine, baseline: TrialRow, chosen: Sequence[TrialRow], runs: Sequence[SlotRow]
) -> Quickest | None:
    """The quickest of some trials; None where none of them becomes as good as the baseline.

    Trials that have been run with test seeds are compared by those alone: the quickest of many
    on the seeds of the search is partly the luckiest. Only without any do tuning seeds count.
    """
    rows = {t.trial_id: t for t in chosen if t.trial_id != baseline.trial_id}
    curves = queries.curves(engine, [baseline.trial_id, *rows])
    classes = {run.run_id: run.hardware_class for run in runs}
    for kind in _SEED_KINDS:
        of_kind = {
            trial_id: [curve for curve in made if curve[0].seed_kind == kind]
            for trial_id, made in curves.items()
        }
        reference = of_kind.get(baseline.trial_id) or curves.get(baseline.trial_id, [])
        found = []
        for trial_id, trial in rows.items():
            shared = on_the_same(
                reference, of_kind.get(trial_id, []), lambda curve: classes.get(curve[0].run_id)
            )
            result = None if shared is None else speed_up(shared.before, shared.after)
            if shared is not None and result is not None:
                found.append(Quickest(trial, baseline, result, kind, shared.hardware))
        if found:
            return max(found, key=lambda each: each.result.ratio)
    return None


def left_out(
    study: StudyRow, trials: Sequence[TrialRow], runs: Sequence[SlotRow]
) -> list[TrialRow]:
    """The trials that `find_quickest` would compare, had they been run on the baseline's
    hardware as well."""
    baseline = baseline_of(trials)
    if baseline is None:
        return []
    able = candidates([t for t in trials if has_study_budget(study, t)], study.objectives)
    wanted = {t.trial_id for t in able} | {t.trial_id for t in trials if t.n_test_runs}
    return [t for t in _apart(baseline, trials, runs) if t.trial_id in wanted]


def left_out_note(trials: Sequence[TrialRow]) -> str:
    """That these trials are left out; empty without any."""
    if not trials:
        return ""
    what = "1 trial was" if len(trials) == 1 else f"{len(trials)} trials were"
    return f"{what} not compared with the baseline, having run on other hardware than it"


def _apart(
    baseline: TrialRow, trials: Sequence[TrialRow], runs: Sequence[SlotRow]
) -> list[TrialRow]:
    """The trials that ran on hardware that is known, and never on the baseline's."""
    hardware = hardware_of(runs, _SEED_KINDS)
    home = hardware.get(baseline.trial_id, frozenset())
    return [t for t in trials if (on := hardware.get(t.trial_id)) and home and not on & home]


def _budget(trial: TrialRow) -> tuple[float | None, int | None]:
    return trial.budget_seconds, trial.budget_env_steps
