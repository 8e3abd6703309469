"""`sweeper confirm`: the front of a study, run again on seeds that the search never saw."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from sweeper.cli.display import make_display
from sweeper.cli.launch import interrupts, line_up, start_executor
from sweeper.cli.learners import make_importable
from sweeper.cli.preflight import cluster_of
from sweeper.cli.reading import reading
from sweeper.cli.retry import named
from sweeper.cli.table import print_table
from sweeper.core.clock import BudgetSpec
from sweeper.core.errors import InputError
from sweeper.report.confirmation import confirmation_table
from sweeper.store import launches, queries
from sweeper.store.rows import AttemptRow, TrialRow
from sweeper.store.store import Store
from sweeper.study.attempts import ON_REQUEST
from sweeper.study.claim import claim_study
from sweeper.study.document import document_of
from sweeper.study.launch import Launcher
from sweeper.study.spec import ConfirmSpec, study_of


def confirm_study(
    name: str, *, db: str, top: int | None, seeds: int | None, budget: str | None
) -> int:
    """Run what is not confirmed yet, and print tuning beside test values; the exit code.

    What is not given is as the study's `confirm` says. `budget` (`10s`) instead of the
    trials' own shows how they do when time is short; such runs are kept apart.
    """
    shorter = None if budget is None else parse_budget(budget)
    make_importable(Path())  # nobody knows where the study's file was
    with reading(db) as engine:
        study = queries.study(engine, name)
    loaded = study_of(document_of(study.spec_yaml, f"study {study.name!r}"))
    asked = loaded.spec.confirm or ConfirmSpec()
    plan = asked.model_copy(update={k: v for k, v in (("top", top), ("seeds", seeds)) if v})
    cluster = cluster_of(loaded)
    with (
        Store.open(db) as store,
        claim_study(store, loaded, target_trials=study.target_trials) as claim,
        nullcontext() if cluster else line_up(loaded.spec) as place,
        reading(db) as reader,
        make_display(loaded.spec) as display,
    ):
        executor = start_executor(loaded, cluster)
        try:
            launcher = Launcher(
                loaded,
                claim,
                store,
                reader,
                executor,
                target_trials=study.target_trials,
                place=place,
                watch=display.show,
            )
            with interrupts(launcher):
                launcher.confirm(plan, shorter)
        finally:
            executor.close()
    with reading(db) as engine:
        attempts = launches.last_attempts(engine, study.study_id)
        trials = queries.trials(engine, study.study_id)
        runs = {trial.trial_id: queries.runs(engine, trial.trial_id) for trial in trials}
    table = confirmation_table(
        study,
        trials,
        runs,
        budget_seconds=shorter.seconds if shorter else study.budget_seconds,
        budget_env_steps=shorter.env_steps if shorter else study.budget_env_steps,
    )
    if table.rows:
        on = f", {shorter} each" if shorter else ""
        print_table(table.head, table.rows, title=f"{study.name}: tuning and test seeds{on}")
    else:
        print(f"{study.name}: nothing is confirmed yet")
    if failed := failures(attempts, trials, shorter):
        statuses = ",".join(sorted({attempt.status for attempt in failed}))
        retry = f"sweeper retry {shlex.quote(study.name)} --status {statuses}"
        print(f"not completed: {named(failed)}; `{retry}` has the next confirmation try again")
    return 130 if launcher.stopping else 0


def failures(
    attempts: Sequence[AttemptRow], trials: Sequence[TrialRow], budget: BudgetSpec | None
) -> list[AttemptRow]:
    """Of the last attempts of a study, those of a confirmation that `sweeper retry` could ask for
    again; `budget`: instead of the trials' own."""
    own = {trial.trial_id: (trial.budget_seconds, trial.budget_env_steps) for trial in trials}
    return [
        attempt
        for attempt in attempts
        if attempt.seed_kind == "test"
        and attempt.status in ON_REQUEST
        and (attempt.budget_seconds, attempt.budget_env_steps)
        == (own[attempt.trial_id] if budget is None else (budget.seconds, budget.env_steps))
    ]


def parse_budget(text: str) -> BudgetSpec:
    """`90s` or `20000steps`. Raises InputError."""
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*s", text):
        seconds = float(match[1])
        if seconds > 0:
            return BudgetSpec(seconds=seconds)
    elif (match := re.fullmatch(r"(\d+)\s*steps", text)) and int(match[1]) > 0:
        return BudgetSpec(env_steps=int(match[1]))
    raise InputError(f"--budget must be like 10s or 20000steps, got {text!r}")
