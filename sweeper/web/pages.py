"""The HTML pages. Each renders one record; nothing is computed in a template."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse

from sweeper import __version__
from sweeper.core.errors import InputError
from sweeper.report.curves import CURVES
from sweeper.report.figures import CONTENDED, DIVERGED, FAILED, INFEASIBLE, PRUNED, kind_of
from sweeper.report.metrics import (
    METRICS,
    format_bytes,
    format_metric,
    format_number,
    format_param,
    format_seconds,
    short_names,
)
from sweeper.store import queries
from sweeper.store.questions import all_questions
from sweeper.store.rows import StudyRow, TrialRow
from sweeper.store.schema import metadata
from sweeper.store.views import VIEW_COLUMNS
from sweeper.web import plotly_js
from sweeper.web.addresses import Name, Number, Sql, State, Trials
from sweeper.web.answers import (
    MAX_ROWS,
    compare_record,
    query_record,
    studies_record,
    study_record,
    trial_record,
)
from sweeper.web.describe import operations
from sweeper.web.results import Results
from sweeper.web.state import StudyState
from sweeper.web.trial_table import cell_text

FIRST_QUERY = """SELECT study, number, final_return, steps_per_second, params
FROM pareto_front
ORDER BY study, final_return DESC"""


def study_address(name: str) -> str:
    """The path of a study's page."""
    return f"/study/{quote(name, safe='')}"


def state_query(state: StudyState, **changes: object) -> str:
    """The query string of a study's page with some of its state changed, defaults left out."""
    values = {**state.model_dump(), "page": 1, **changes}
    fields = StudyState.model_fields
    said = {key: value for key, value in values.items() if value != fields[key].default}
    return f"?{urlencode(said, doseq=True)}" if said else "?"


def mark(trial: TrialRow, *, on_front: bool, alive: bool = True) -> tuple[str, str]:
    """A trial's state as a shape, the plot's own where it has one, and a word.

    alive: whether the study's launcher is; a dead one runs nothing.
    """
    if trial.status == "RUNNING" and not alive:
        return "□", "left unfinished"
    if on_front:
        return "●", "front, contended" if trial.contended else "front"
    kind = kind_of(trial)
    if kind in (DIVERGED, FAILED, PRUNED):
        shape = {DIVERGED: "×", FAILED: "□", PRUNED: "◁"}[kind]
        return shape, trial.status.lower()
    if kind is INFEASIBLE:
        return "▽", "infeasible"
    if kind is CONTENDED:
        return "◇", "contended"
    return {"RUNNING": "▸", "QUEUED": "·"}.get(trial.status, "•"), trial.status.lower()


def code(words: str) -> Markup:
    """Escaped words, of which those in backticks are code."""
    parts = [
        Markup("<code>{}</code>").format(p) if i % 2 else Markup.escape(p)
        for i, p in enumerate(words.split("`"))
    ]
    return Markup("").join(parts)


def shortened(value: Any) -> str:
    """A cell of an answer, with as many digits as help a reader; the CSV has them all."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def percent(share: float | None) -> str:
    """A share as a percentage."""
    return "–" if share is None else f"{format_number(100 * share)}%"


_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("sweeper.web"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["code"] = code
_templates.globals.update(
    cell_text=cell_text,
    format_bytes=format_bytes,
    format_metric=format_metric,
    format_number=format_number,
    format_param=format_param,
    format_seconds=format_seconds,
    mark=mark,
    metrics=METRICS,
    percent=percent,
    plotly_style_ids=plotly_js.style_ids(),
    plotly_version=plotly_js.VERSION,
    short_names=short_names,
    shortened=shortened,
    state_query=state_query,
    study_address=study_address,
    sweeper_version=__version__,
)


def page_routes(results: Results) -> APIRouter:
    """Every page."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    @pages.get("/")
    def studies() -> HTMLResponse:
        token = results.database_token()
        return render(
            "studies.html", studies=studies_record(results), token=token, live="/api/changes"
        )

    @pages.get("/hosts")
    def hosts() -> HTMLResponse:
        token = results.database_token()
        return render(
            "hosts.html", hosts=queries.hosts(results.engine), token=token, live="/api/changes"
        )

    @pages.get("/query")
    def query(sql: Sql = "") -> HTMLResponse:
        answer, problem = None, None
        if sql.strip():
            try:
                answer = query_record(results, sql)
            except InputError as error:
                problem = str(error)
        return render(
            "query.html",
            status=400 if problem else 200,
            sql=sql or FIRST_QUERY,
            answer=answer,
            problem=problem,
            max_rows=MAX_ROWS,
            schema=_schema(),
            questions=all_questions(),
            csv_query=urlencode({"sql": sql}),
        )

    @pages.get("/api/docs")
    def docs(request: Request) -> HTMLResponse:
        return render("docs.html", operations=operations(request.app.openapi()))

    @pages.get("/study/{name:path}/compare")
    def compare(name: Name, trials: Trials) -> HTMLResponse:
        record = compare_record(results, name, trials)
        chosen = ",".join(str(trial.number) for trial in record.trials)
        return render("compare.html", page=record, chosen=chosen, live=_live(record.study))

    @pages.get("/study/{name:path}/trial/{number}")
    def trial(name: Name, number: Number) -> HTMLResponse:
        record = trial_record(results, name, number)
        return render("trial.html", page=record, curves=CURVES, live=_live(record.study))

    @pages.get("/study/{name:path}")
    def study(request: Request, name: Name, state: State) -> HTMLResponse:
        record = study_record(results, name, state)
        x, y = state.axes(record.study)
        return render(
            "study.html",
            page=record,
            state=state,
            x=x,
            y=y,
            query=request.url.query,
            live=_live(record.study),
        )

    return pages


def render(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page from a template; every value is escaped."""
    values.setdefault("live", None)
    return HTMLResponse(_templates.get_template(template).render(**values), status)


def _live(study: StudyRow) -> str:
    return f"/api{study_address(study.name)}/changes"


def _schema() -> dict[str, tuple[str, ...]]:
    """View or table -> columns; the views, which are made for people, first."""
    tables = {table.name: tuple(table.columns.keys()) for table in metadata.sorted_tables}
    return VIEW_COLUMNS | tables
