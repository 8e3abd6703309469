"""The figures, each under the address of its page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import plotly.graph_objects as go
from fastapi import APIRouter, Response

from sweeper.report.anytime import anytime_figure
from sweeper.report.compare import curves_figure, phases_figure
from sweeper.report.curves import curve_figure, phase_figure
from sweeper.report.figures import pareto_figure
from sweeper.report.history import hypervolume_figure, timeline_figure
from sweeper.report.parameters import importance_figure
from sweeper.report.rungs import study_rungs
from sweeper.report.theme import Theme
from sweeper.store import queries
from sweeper.store.rows import RunRow
from sweeper.web import records
from sweeper.web.addresses import CurveName, Name, Number, State, Trials
from sweeper.web.answers import compare_record
from sweeper.web.results import Results


def figure_routes(results: Results) -> APIRouter:
    """Every figure, as Plotly's JSON."""
    api = APIRouter(prefix="/api")

    @api.get("/study/{name:path}/trial/{number}/curve", response_class=Response)
    def curve(
        name: Name,
        number: Number,
        x: Literal["seconds", "steps"] = "seconds",
        y: CurveName = "training_return",
        theme: Theme = "light",
    ) -> Response:
        """A quantity over each run of a trial, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        trial = records.find_trial(results.engine, study, number)
        runs = {_label(run): run for run in queries.runs(results.engine, trial.trial_id)}
        deadline = trial.budget_seconds if x == "seconds" else trial.budget_env_steps
        return _figure(
            curve_figure(
                {
                    label: queries.measurements(results.engine, run.run_id)
                    for label, run in runs.items()
                },
                x=x,
                y=y,
                test={label for label, run in runs.items() if run.seed_kind == "test"},
                deadline=deadline,
                rungs=[share * deadline for share in study_rungs(study)] if deadline else (),
                theme=theme,
            )
        )

    @api.get("/study/{name:path}/trial/{number}/phases/{run_id}", response_class=Response)
    def phases(name: Name, number: Number, run_id: Number, theme: Theme = "light") -> Response:
        """Where a run's budget went, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        trial = records.find_trial(results.engine, study, number)
        for run in queries.runs(results.engine, trial.trial_id):
            if run.run_id == run_id:
                return _figure(phase_figure(run, theme=theme))
        raise records.NotFoundError(f"trial {number} of {name!r} has no run {run_id}")

    @api.get("/study/{name:path}/pareto", response_class=Response)
    def pareto(name: Name, state: State, theme: Theme = "light") -> Response:
        """Trials and their front in the plane of two metrics, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        data = results.data(study.study_id)
        x, y = state.axes(study)
        certainty = results.certainty(study, data, (x, y))
        return _figure(
            pareto_figure(
                study, data.trials, x=x, y=y, log=state.log, certainty=certainty, theme=theme
            )
        )

    @api.get("/study/{name:path}/hypervolume", response_class=Response)
    def hypervolume(
        name: Name, x: Literal["time", "trials"] = "time", theme: Theme = "light"
    ) -> Response:
        """How the front grew, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        trials = results.data(study.study_id).trials
        return _figure(hypervolume_figure(study, trials, x=x, theme=theme))

    @api.get("/study/{name:path}/timeline", response_class=Response)
    def timeline(name: Name, theme: Theme = "light") -> Response:
        """Which run had which cores when, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        runs = results.data(study.study_id).runs
        return _figure(timeline_figure(study, runs, now=datetime.now(UTC), theme=theme))

    @api.get("/study/{name:path}/anytime", response_class=Response)
    def anytime(name: Name, theme: Theme = "light") -> Response:
        """The best training return after each time, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        front = results.anytime(study, results.data(study.study_id))
        return _figure(anytime_figure(front, theme=theme))

    @api.get("/study/{name:path}/importances", response_class=Response)
    def importances(name: Name, theme: Theme = "light") -> Response:
        """How much each parameter mattered to each objective, as a Plotly figure."""
        study = records.find_study(results.engine, name)
        rows = queries.importances(results.engine, study.study_id)
        return _figure(importance_figure(rows, theme=theme))

    @api.get("/study/{name:path}/compare/curves", response_class=Response)
    def compare_curves(
        name: Name,
        trials: Trials,
        x: Literal["seconds", "steps"] = "seconds",
        theme: Theme = "light",
    ) -> Response:
        """The training returns of some trials, as a Plotly figure."""
        rows = compare_record(results, name, trials).trials
        curves = queries.curves(results.engine, [row.trial_id for row in rows])
        return _figure(curves_figure(rows, curves, x=x, theme=theme))

    @api.get("/study/{name:path}/compare/phases", response_class=Response)
    def compare_phases(name: Name, trials: Trials, theme: Theme = "light") -> Response:
        """Where the budgets of some trials went, as a Plotly figure."""
        return _figure(phases_figure(compare_record(results, name, trials).trials, theme=theme))

    return api


def _label(run: RunRow) -> str:
    """What tells a run from the others of its trial."""
    kind = "test seed" if run.seed_kind == "test" else "seed"
    return f"{kind} {run.seed}" + (f", attempt {run.attempt}" if run.attempt > 1 else "")


def _figure(figure: go.Figure) -> Response:
    return Response(figure.to_json(), media_type="application/json")
