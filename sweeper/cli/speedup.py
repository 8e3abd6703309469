"""`sweeper speedup`: how much sooner a trial is as good as the baseline, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Engine

from sweeper.cli.printing import print_json
from sweeper.cli.reading import reading
from sweeper.cli.table import print_table
from sweeper.core.clock import BudgetSpec
from sweeper.core.errors import InputError
from sweeper.core.records import RunStatus
from sweeper.report.against import Paired, against_table, paired
from sweeper.report.metrics import format_number
from sweeper.report.quickest import (
    Quickest,
    baseline_of,
    find_quickest,
    left_out,
    left_out_note,
    quickest_of,
)
from sweeper.store import queries
from sweeper.store.rows import RunRow, StudyRow, TrialRow


def show_speedup(name: str | None, *, number: int | None, db: str, as_json: bool) -> None:
    """Print one trial against the baseline: the given one, or the quickest to an equal return.

    Raises InputError for a study without a completed baseline, and for a trial without a
    completed run.
    """
    with reading(db) as engine:
        study = queries.study(engine, name)
        trials = queries.trials(engine, study.study_id)
        study_runs = queries.study_runs(engine, study.study_id)
        baseline = baseline_of(trials)
        if baseline is None:
            raise InputError(
                f"study {study.name!r} has no completed baseline to compare with "
                "(`baseline` in the study file)"
            )
        if number is None:
            apart = left_out(study, trials, study_runs)
            quickest = find_quickest(engine, study, trials, study_runs)
            trial = quickest.trial if quickest else None
        else:
            apart = []
            trial = queries.trial(engine, study.study_id, number)
            quickest = quickest_of(engine, baseline, [trial], study_runs)
        if trial is None:
            _show_none(study, baseline, apart, as_json=as_json)
            return
        kind = quickest.seed_kind if quickest else "test" if trial.n_test_runs else "tuning"
        before, after = (_completed(engine, each, kind) for each in (baseline, trial))
    if not after:
        raise InputError(f"trial {trial.number} of study {study.name!r} has no completed run")
    pair = paired(before, after, study_runs, quickest)
    if as_json:
        print_json(
            {
                "study": study.name,
                "trial": trial.number,
                "baseline": baseline.number,
                "seed_kind": kind,
                "baseline_runs": len(pair.before),
                "trial_runs": len(pair.after),
                "baseline_hardware": pair.hardware_before,
                "trial_hardware": pair.hardware_after,
                "left_out": [each.number for each in apart],
                "target_return": quickest.result.target_return if quickest else None,
                "quantities": [asdict(quantity) for quantity in pair.quantities],
            }
        )
        return
    title = f"{study.name}: trial {trial.number} against the baseline"
    table = against_table(pair.quantities, trial=trial.number)
    runs = f"{len(pair.before)} and {len(pair.after)} runs, {kind} seeds"
    print_table(table.head, table.rows, title=f"{title} ({runs})")
    n_unused = len(before) + len(after) - len(pair.before) - len(pair.after)
    for note in (*_notes(baseline, trial, pair, quickest), *_hardware_notes(pair, n_unused)):
        print(note)
    if apart:
        print(left_out_note(apart))


def _show_none(
    study: StudyRow, baseline: TrialRow, apart: Sequence[TrialRow], *, as_json: bool
) -> None:
    if as_json:
        numbers = [trial.number for trial in apart]
        nothing = {"trial": None, "left_out": numbers, "quantities": []}
        print_json({"study": study.name, "baseline": baseline.number, **nothing})
        return
    print(f"{study.name}: no trial has become as good as the baseline yet")
    if apart:
        print(left_out_note(apart))


def _completed(engine: Engine, trial: TrialRow, kind: str) -> list[RunRow]:
    """The trial's runs on its own budget; of the other kind of seeds where it has none of this
    one, as the baseline of a study that was never confirmed has."""
    own = [
        run
        for run in queries.runs(engine, trial.trial_id)
        if run.status == RunStatus.COMPLETED
        and (run.budget_seconds, run.budget_env_steps)
        == (trial.budget_seconds, trial.budget_env_steps)
    ]
    return [run for run in own if run.seed_kind == kind] or own


def _notes(
    baseline: TrialRow, trial: TrialRow, pair: Paired, quickest: Quickest | None
) -> list[str]:
    notes = ["factor: of the time, how many times shorter; of the others, how many times as much"]
    if quickest is None and pair.is_fair:
        notes.append(f"trial {trial.number} has not become as good as the baseline on every seed")
    elif quickest is not None:
        target = format_number(quickest.result.target_return)
        notes.append(f"as good as the baseline: a training return of {target}")
    budgets = [_budget(each) for each in (baseline, trial)]
    if budgets[0] != budgets[1]:
        notes.append(
            f"the budgets differ: {budgets[0]} for the baseline, {budgets[1]} for the trial; "
            "final returns are those at the end of each"
        )
    runs = [*pair.before, *pair.after]
    contended = sum(bool(run.contended) for run in runs)
    if contended:
        notes.append(f"others disturbed {contended} of these {len(runs)} runs: times are too long")
    return notes


def _hardware_notes(pair: Paired, n_unused: int) -> list[str]:
    """What was measured where; `n_unused` further runs are left out for that."""
    baseline, trial = (
        " and ".join(classes) or "unknown hardware"
        for classes in (pair.hardware_before, pair.hardware_after)
    )
    if not pair.is_fair:
        return [
            f"the baseline ran on {baseline}, the trial on {trial}: there are no factors, "
            "which would be as much the machines' as the trial's"
        ]
    others = f"; {n_unused} further runs, on other hardware, are left out" if n_unused else ""
    return [f"all measured on {baseline}{others}"]


def _budget(trial: TrialRow) -> str:
    return str(BudgetSpec(seconds=trial.budget_seconds, env_steps=trial.budget_env_steps))
