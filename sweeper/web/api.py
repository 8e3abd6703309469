"""The JSON twin of each page, CSV, and the streams of changes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Response
from starlette.responses import StreamingResponse

from sweeper.report.export import study_json
from sweeper.report.metrics import METRICS
from sweeper.report.parameters import Parallel
from sweeper.report.parameters import parallel as parallel_record
from sweeper.report.pareto import study_front
from sweeper.store import queries
from sweeper.store.questions import Question, all_questions
from sweeper.store.rows import HostRow
from sweeper.store.sql import run_sql
from sweeper.web import records, trial_table
from sweeper.web.addresses import Name, Number, Sql, State, Trials
from sweeper.web.answers import (
    QUERY_SECONDS,
    QueryPage,
    compare_record,
    plain,
    query_record,
    studies_record,
    study_record,
    trial_record,
)
from sweeper.web.live import change_stream
from sweeper.web.results import Results

MAX_CSV_ROWS = 1_000_000


def api_routes(results: Results) -> APIRouter:
    """Everything under /api."""
    api = APIRouter(prefix="/api")

    @api.get("/studies")
    def studies() -> list[records.StudyOverview]:
        """All studies, the last launched first, with their fronts and who works on them."""
        return studies_record(results)

    @api.get("/hosts")
    def hosts() -> list[HostRow]:
        """The machines that runs have used."""
        return list(queries.hosts(results.engine))

    @api.get("/changes", response_class=StreamingResponse)
    def all_changes() -> StreamingResponse:
        """Server-sent events: `change` whenever anything of any study has changed."""
        return change_stream(results.database_token)

    @api.get("/questions")
    def questions() -> list[Question]:
        """The named queries."""
        return list(all_questions())

    @api.get("/query")
    def query(sql: Sql) -> QueryPage:
        """One read-only SQL statement."""
        return query_record(results, sql)

    @api.get("/query.csv", response_class=Response)
    def query_csv(sql: Sql) -> StreamingResponse:
        """The same, as CSV."""
        answer = run_sql(results.engine, sql, max_rows=MAX_CSV_ROWS, timeout_seconds=QUERY_SECONDS)
        return _csv(answer.columns, answer.rows, "query.csv")

    @api.get("/study/{name:path}/trial/{number}")
    def trial(name: Name, number: Number) -> records.TrialPage:
        """A trial: runs, evaluation, configuration."""
        return trial_record(results, name, number)

    @api.get("/study/{name:path}/parallel")
    def parallel(name: Name, state: State) -> Parallel:
        """Parallel coordinates of the completed trials; `chosen` are those that match."""
        study = records.find_study(results.engine, name)
        trials = results.data(study.study_id).trials
        rows, _ = trial_table.matching_trials(
            study, trials, filter_text=state.filter, box=state.brushed(study)
        )
        return parallel_record(
            study,
            trials,
            front={trial.number for trial in study_front(study, trials)},
            chosen={trial.number for trial in rows},
        )

    @api.get("/study/{name:path}/compare")
    def compare(name: Name, trials: Trials) -> records.ComparePage:
        """Two to six trials side by side."""
        return compare_record(results, name, trials)

    @api.get("/study/{name:path}/export.json", response_class=Response)
    def export_json(name: Name) -> Response:
        """A study with all its trials and runs."""
        study = records.find_study(results.engine, name)
        data = results.data(study.study_id)
        return Response(study_json(study, data.trials, data.runs), media_type="application/json")

    @api.get("/study/{name:path}/trials.csv", response_class=Response)
    def trials_csv(name: Name, state: State) -> StreamingResponse:
        """The trials that match, unrounded: searched parameters, then every metric."""
        study = records.find_study(results.engine, name)
        trials = results.data(study.study_id).trials
        rows, _ = trial_table.matching_trials(
            study, trials, filter_text=state.filter, box=state.brushed(study), sort=state.sort
        )
        columns = trial_table.columns_of(study, trials, state.chosen_columns)
        keys = [column.key for column in columns]
        if not state.chosen_columns:
            keys = [*(key for key in keys if key not in METRICS), *METRICS]
        return _csv(
            keys,
            ([trial_table.cell(row, key) for key in keys] for row in rows),
            f"study-{study.study_id}-trials.csv",
        )

    @api.get("/study/{name:path}/changes", response_class=StreamingResponse)
    def changes(name: Name) -> StreamingResponse:
        """Server-sent events: `change` whenever anything of the study has changed."""
        study = records.find_study(results.engine, name)
        return change_stream(lambda: results.token(study.study_id))

    @api.get("/study/{name:path}")
    def study(name: Name, state: State) -> records.StudyPage:
        """A study: headline, front, progress, one page of its trials."""
        return study_record(results, name, state)

    return api


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
    csv.writer(line).writerow(map(plain, row))
    return line.getvalue()
