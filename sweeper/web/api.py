"""The JSON twin of each page, the figures, CSV, and the stream of changes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import plotly.graph_objects as go
from fastapi import APIRouter, Path, Query, Response
from starlette.responses import StreamingResponse

from sweeper.report.curves import curve_figure, phase_figure
from sweeper.report.figures import hypervolume_figure, pareto_figure
from sweeper.report.metrics import METRICS
from sweeper.report.pareto import study_front
from sweeper.report.theme import Theme
from sweeper.store import queries
from sweeper.store.queries import HostRow, StudyRow
from sweeper.store.sql import run_sql
from sweeper.web import records, trial_table
from sweeper.web.live import change_stream
from sweeper.web.results import Results
from sweeper.web.state import StudyState

MAX_ROWS = 1000
"""Rows of a query that a page shows; the CSV has them all, up to MAX_CSV_ROWS."""
MAX_CSV_ROWS = 1_000_000
QUERY_SECONDS = 10.0

Name = Annotated[str, Path(min_length=1, max_length=500)]
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
State = Annotated[StudyState, Query()]
Sql = Annotated[str, Query(max_length=100_000)]


@dataclass(frozen=True, slots=True)
class QueryPage:
    """The first rows of an answer to a query."""

    sql: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool
    """Whether there are more rows than MAX_ROWS."""


def study_record(results: Results, name: str, state: StudyState) -> records.StudyPage:
    """What the page of a study and its twin both show."""
    study = records.find_study(results.engine, name)
    token, trials = results.trials(study.study_id)
    table = trial_table.select(
        study,
        trials,
        filter_text=state.filter,
        box=state.brushed(study),
        sort=state.sort,
        page=state.page,
    )
    return records.study_page(
        results.engine, study, trials, table=table, now=datetime.now(UTC), change_token=token
    )


def trial_record(results: Results, name: str, number: int) -> records.TrialPage:
    """What the page of a trial and its twin both show."""
    study = records.find_study(results.engine, name)
    trial = records.find_trial(results.engine, study, number)
    _, trials = results.trials(study.study_id)
    front = {row.number for row in study_front(study, trials)}
    return records.trial_page(results.engine, study, trial, front=number in front)


def query_record(results: Results, sql: str) -> QueryPage:
    """Runs one read-only statement. Raises InputError with the database's own words."""
    answer = run_sql(results.engine, sql, max_rows=MAX_ROWS + 1, timeout_seconds=QUERY_SECONDS)
    rows = tuple(tuple(map(_plain, row)) for row in answer.rows)
    return QueryPage(sql, tuple(answer.columns), rows[:MAX_ROWS], truncated=len(rows) > MAX_ROWS)


def api_routes(results: Results) -> APIRouter:
    """Everything under /api."""
    api = APIRouter(prefix="/api")

    @api.get("/studies")
    def studies() -> list[StudyRow]:
        """All studies, newest first."""
        return list(queries.studies(results.engine))

    @api.get("/hosts")
    def hosts() -> list[HostRow]:
        """The machines that runs have used."""
        return list(queries.hosts(results.engine))

    @api.get("/query")
    def query(sql: Sql) -> QueryPage:
        """One read-only SQL statement."""
        return query_record(results, sql)

    @api.get("/query.csv", response_class=Response)
    def query_csv(sql: Sql) -> StreamingResponse:
        """The same, as CSV."""
        answer = run_sql(results.engine, sql, max_rows=MAX_CSV_ROWS, timeout_seconds=QUERY_SECONDS)
        return _csv(answer.columns, answer.rows, "query.csv")

    # The longer addresses stand first: a study's name may contain a slash.
    @api.get("/study/{name:path}/trial/{number}/curve", response_class=Response)
    def curve(
        name: Name,
        number: Number,
        x: Literal["seconds", "steps"] = "seconds",
        theme: Theme = "light",
    ) -> Response:
        """Learning curves of a trial's runs, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        trial = records.find_trial(results.engine, study, number)
        runs = {
            f"seed {run.seed}" + (f", attempt {run.attempt}" if run.attempt > 1 else ""): (
                queries.measurements(results.engine, run.run_id)
            )
            for run in queries.runs(results.engine, trial.trial_id)
        }
        deadline = trial.budget_seconds if x == "seconds" else trial.budget_env_steps
        return _figure(curve_figure(runs, x=x, deadline=deadline, theme=theme))

    @api.get("/study/{name:path}/trial/{number}/phases/{run_id}", response_class=Response)
    def phases(name: Name, number: Number, run_id: Number, theme: Theme = "light") -> Response:
        """Where a run's budget went, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        trial = records.find_trial(results.engine, study, number)
        for run in queries.runs(results.engine, trial.trial_id):
            if run.run_id == run_id:
                return _figure(phase_figure(run, theme=theme))
        raise records.NotFoundError(f"trial {number} of {name!r} has no run {run_id}")

    @api.get("/study/{name:path}/trial/{number}")
    def trial(name: Name, number: Number) -> records.TrialPage:
        """A trial: runs, evaluation, configuration."""
        return trial_record(results, name, number)

    @api.get("/study/{name:path}/pareto", response_class=Response)
    def pareto(name: Name, state: State, theme: Theme = "light") -> Response:
        """Trials and their front in the plane of two metrics, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        _, trials = results.trials(study.study_id)
        x, y = state.axes(study)
        return _figure(pareto_figure(study, trials, x=x, y=y, log=state.log, theme=theme))

    @api.get("/study/{name:path}/hypervolume", response_class=Response)
    def hypervolume(name: Name, theme: Theme = "light") -> Response:
        """How the front grew, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        _, trials = results.trials(study.study_id)
        return _figure(hypervolume_figure(study, trials, theme=theme))

    @api.get("/study/{name:path}/trials.csv", response_class=Response)
    def trials_csv(name: Name, state: State) -> StreamingResponse:
        """The trials that match, unrounded: searched parameters, then every metric."""
        study = records.find_study(results.engine, name)
        _, trials = results.trials(study.study_id)
        rows, _ = trial_table.matching_trials(
            study, trials, filter_text=state.filter, box=state.brushed(study), sort=state.sort
        )
        keys = [c.key for c in trial_table.columns_of(study, trials) if c.key not in METRICS]
        keys += METRICS
        return _csv(
            keys,
            ([trial_table.cell(row, key) for key in keys] for row in rows),
            f"study-{study.study_id}-trials.csv",
        )

    @api.get("/study/{name:path}/changes", response_class=StreamingResponse)
    def changes(name: Name) -> StreamingResponse:
        """Server-sent events: `change` whenever anything of the study has changed."""
        study = records.find_study(results.engine, name)
        return change_stream(lambda: queries.change_token(results.engine, study.study_id))

    @api.get("/study/{name:path}")
    def study(name: Name, state: State) -> records.StudyPage:
        """A study: headline, front, progress, one page of its trials."""
        return study_record(results, name, state)

    return api


def _figure(figure: go.Figure) -> Response:
    return Response(figure.to_json(), media_type="application/json")


def _plain(value: Any) -> Any:
    """A cell that JSON and CSV can hold: bytes as SQL writes them."""
    return f"x'{value.hex()}'" if isinstance(value, bytes | memoryview) else value


def _csv(columns: Iterable[str], rows: Iterable[Iterable[Any]], name: str) -> StreamingResponse:
    def lines() -> Iterable[str]:
        yield _csv_line(columns)
        for row in rows:
            yield _csv_line(row)

    return StreamingResponse(
        lines(),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


def _csv_line(row: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(map(_plain, row))
    return line.getvalue()
