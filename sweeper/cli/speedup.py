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
from sweeper.report.against import against, against_table
from sweeper.report.metrics import format_number
from sweeper.report.pareto import study_front
from sweeper.report.quickest import MAX_COMPARED, Quickest, baseline_of, find_quickest
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
        baseline = baseline_of(trials)
        if baseline is None:
            raise InputError(
                f"study {study.name!r} has no completed baseline to compare with "
                "(`baseline` in the study file)"
            )
        quickest = _quickest(engine, study, trials, number)
        if quickest is None and number is None:
            print(f"{study.name}: no trial has become as good as the baseline yet")
            return
        trial = quickest.trial if quickest else queries.trial(engine, study.study_id, number or 0)
        kind = quickest.seed_kind if quickest else "test" if trial.n_test_runs else "tuning"
        before, after = (_completed(engine, each, kind) for each in (baseline, trial))
    if not after:
        raise InputError(f"trial {trial.number} of study {study.name!r} has no completed run")
    quantities = against(before, after, quickest.result if quickest else None)
    if as_json:
        print_json(
            {
                "study": study.name,
                "trial": trial.number,
                "baseline": baseline.number,
                "seed_kind": kind,
                "baseline_runs": len(before),
                "trial_runs": len(after),
                "target_return": quickest.result.target_return if quickest else None,
                "quantities": [asdict(quantity) for quantity in quantities],
            }
        )
        return
    title = f"{study.name}: trial {trial.number} against the baseline"
    table = against_table(quantities, trial=trial.number)
    runs = f"{len(before)} and {len(after)} runs, {kind} seeds"
    print_table(table.head, table.rows, title=f"{title} ({runs})")
    for note in _notes(baseline, trial, [*before, *after], quickest):
        print(note)


def _quickest(
    engine: Engine, study: StudyRow, trials: Sequence[TrialRow], number: int | None
) -> Quickest | None:
    if number is None:
        return find_quickest(engine, trials, study_front(study, trials)[:MAX_COMPARED])
    chosen = queries.trial(engine, study.study_id, number)
    baseline = baseline_of(trials)
    return find_quickest(engine, [*([baseline] if baseline else []), chosen], [chosen])


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
    baseline: TrialRow, trial: TrialRow, runs: Sequence[RunRow], quickest: Quickest | None
) -> list[str]:
    notes = ["factor: of the time, how many times shorter; of the others, how many times as much"]
    if quickest is None:
        notes.append(f"trial {trial.number} has not become as good as the baseline on every seed")
    else:
        target = format_number(quickest.result.target_return)
        notes.append(f"as good as the baseline: a training return of {target}")
    budgets = [_budget(each) for each in (baseline, trial)]
    if budgets[0] != budgets[1]:
        notes.append(
            f"the budgets differ: {budgets[0]} for the baseline, {budgets[1]} for the trial; "
            "final returns are those at the end of each"
        )
    contended = sum(bool(run.contended) for run in runs)
    if contended:
        notes.append(f"others disturbed {contended} of these {len(runs)} runs: times are too long")
    return notes


def _budget(trial: TrialRow) -> str:
    return str(BudgetSpec(seconds=trial.budget_seconds, env_steps=trial.budget_env_steps))
