"""What each page shows and its JSON twin answers: one function a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sweeper.report.pareto import study_front
from sweeper.store import queries
from sweeper.store.sql import run_sql
from sweeper.web import records, trial_table
from sweeper.web.results import Results
from sweeper.web.state import StudyState

MAX_ROWS = 1000
"""Rows of a query that a page shows; the CSV has them all, up to a limit of its own."""
QUERY_SECONDS = 10.0


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
    data = results.data(study.study_id)
    table = trial_table.select(
        study,
        data.trials,
        filter_text=state.filter,
        box=state.brushed(study),
        sort=state.sort,
        page=state.page,
        chosen=state.chosen_columns,
    )
    return records.study_page(results, study, data, table=table, now=datetime.now(UTC))


def trial_record(results: Results, name: str, number: int) -> records.TrialPage:
    """What the page of a trial and its twin both show."""
    study = records.find_study(results.engine, name)
    trial = records.find_trial(results.engine, study, number)
    front = {row.number for row in study_front(study, results.data(study.study_id).trials)}
    return records.trial_page(results, study, trial, front=number in front)


def studies_record(results: Results) -> list[records.StudyOverview]:
    """What the page of all studies and its twin both show."""
    now = datetime.now(UTC)
    return [
        records.study_overview(results, study, now=now) for study in queries.studies(results.engine)
    ]


def compare_record(results: Results, name: str, trials: Sequence[int]) -> records.ComparePage:
    """What the page of a comparison and its twin both show."""
    study = records.find_study(results.engine, name)
    return records.compare_page(results, study, list(dict.fromkeys(trials)))


def query_record(results: Results, sql: str) -> QueryPage:
    """Runs one read-only statement. Raises InputError with the database's own words."""
    answer = run_sql(results.engine, sql, max_rows=MAX_ROWS + 1, timeout_seconds=QUERY_SECONDS)
    rows = tuple(tuple(map(plain, row)) for row in answer.rows)
    return QueryPage(sql, tuple(answer.columns), rows[:MAX_ROWS], truncated=len(rows) > MAX_ROWS)


def plain(value: Any) -> Any:
    """A cell that JSON and CSV can hold: bytes as SQL writes them."""
    return f"x'{value.hex()}'" if isinstance(value, bytes | memoryview) else value
