"""What has been measured so far: status, front, queries, exports."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from sqlalchemy import Engine

from sweeper.cli.printing import print_json, print_table
from sweeper.core.records import RunStatus
from sweeper.report.export import trial_yaml
from sweeper.report.figures import pareto_figure
from sweeper.report.pareto import study_front
from sweeper.report.render import write_html, write_png
from sweeper.report.tables import front_table
from sweeper.store import queries
from sweeper.store.queries import StudyRow, TrialRow
from sweeper.store.sql import run_sql


def show_status(study: str | None, *, db: str, as_json: bool) -> None:
    """A line a study; one study's alone if it is named."""
    with _reader(db) as engine:
        rows = queries.studies(engine) if study is None else [queries.study(engine, study)]
    if as_json:
        print_json([{"study": row.name, **_counts(row)} for row in rows])
        return
    if not rows:
        typer.echo(f"no studies in {db} yet; `sweeper launch FILE` makes one")
        return
    print_table(
        ("study", "environment", "trials", "running", "failed", "last event (UTC)"),
        [
            (
                row.name,
                row.env,
                f"{_counts(row)['completed']} / {row.target_trials or '-'}",
                str(_counts(row)["running"]),
                str(_counts(row)["failed"]),
                f"{row.last_event_at:%Y-%m-%d %H:%M:%S}" if row.last_event_at else "-",
            )
            for row in rows
        ],
    )


def show_pareto(
    study: str | None, *, db: str, html: Path | None, png: Path | None, as_json: bool
) -> None:
    """Print the front of a study; draw it where a file is asked for."""
    with _reader(db) as engine:
        row = queries.study(engine, study)
        trials = queries.trials(engine, row.study_id)
    if as_json:
        print_json([trial_record(t, row) for t in study_front(row, trials)])
    else:
        print_front(row, trials)
    if html is not None:
        write_pareto_html(row, trials, html)
    if png is not None:
        write_png(pareto_figure(row, trials), png)
    for path in (html, png):
        if path is not None and not as_json:
            typer.echo(f"wrote {path}")


def print_front(study: StudyRow, trials: list[TrialRow]) -> None:
    """The front as a table, or why there is none."""
    table = front_table(study, trials)
    if not table.rows:
        typer.echo(f"{study.name}: no trial stands on the front yet")
        return
    print_table(table.head, table.rows, title=f"{study.name}: the front")


def write_pareto_html(study: StudyRow, trials: list[TrialRow], path: Path) -> None:
    """The self-contained plot of a study's front."""
    write_html(
        pareto_figure(study, trials), path, title=study.name, table=front_table(study, trials)
    )


def trial_record(trial: TrialRow, study: StudyRow) -> dict[str, Any]:
    """A trial of a front for programs: number, objectives, what was searched."""
    return {
        "trial": trial.number,
        **{metric: getattr(trial, metric) for metric in study.objectives},
        "params": dict(trial.params),
        "n_runs": trial.n_runs,
    }


def run_query(sql: str, *, db: str, as_csv: bool, as_json: bool) -> None:
    """Answer one SELECT as a table, CSV or JSON."""
    with _reader(db) as engine:
        result = run_sql(engine, sql)
        if as_csv:
            writer = csv.writer(sys.stdout)
            writer.writerow(result.columns)
            writer.writerows(result.rows)
        elif as_json:
            print_json([dict(zip(result.columns, row, strict=True)) for row in result.rows])
        else:
            print_table(result.columns, ([_cell(value) for value in row] for row in result.rows))


def export_trial(study: str, *, number: int, db: str) -> None:
    """Print a trial as a file that `sweeper run` takes."""
    with _reader(db) as engine:
        row = queries.study(engine, study)
        trial = queries.trial(engine, row.study_id, number)
    typer.echo(trial_yaml(row, trial), nl=False)


@contextmanager
def _reader(db: str) -> Iterator[Engine]:
    engine = queries.open_reader(db)
    try:
        yield engine
    finally:
        engine.dispose()


def _counts(row: StudyRow) -> dict[str, Any]:
    counts = row.status_counts
    unfinished = (RunStatus.QUEUED, RunStatus.RUNNING)
    return {
        "environment": row.env,
        "trials": row.n_trials,
        "target_trials": row.target_trials,
        "completed": counts.get(RunStatus.COMPLETED, 0),
        "running": sum(counts.get(status, 0) for status in unfinished),
        "failed": sum(n for s, n in counts.items() if s not in (*unfinished, RunStatus.COMPLETED)),
        "statuses": dict(counts),
        "last_event_at": row.last_event_at,
    }


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
