"""`sweeper confirm`: the front of a study, run again on seeds that the search never saw."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

from sweeper.cli.display import make_display
from sweeper.cli.launch import interrupts, line_up, start_executor
from sweeper.cli.learners import make_importable
from sweeper.cli.preflight import cluster_of
from sweeper.cli.reading import reading
from sweeper.cli.table import print_table
from sweeper.core.clock import BudgetSpec
from sweeper.core.errors import InputError
from sweeper.report.confirmation import confirmation_table
from sweeper.store import queries
from sweeper.store.store import Store
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
    return 130 if launcher.stopping else 0


def parse_budget(text: str) -> BudgetSpec:
    """`90s` or `20000steps`. Raises InputError."""
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*s", text):
        seconds = float(match[1])
        if seconds > 0:
            return BudgetSpec(seconds=seconds)
    elif (match := re.fullmatch(r"(\d+)\s*steps", text)) and int(match[1]) > 0:
        return BudgetSpec(env_steps=int(match[1]))
    raise InputError(f"--budget must be like 10s or 20000steps, got {text!r}")
