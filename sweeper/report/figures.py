"""A study -> Plotly figures, for the CLI, the dashboard and notebooks.

Every mark means one thing wherever it appears: the front is a line, the baseline a ring, and
what cannot stand on the front has a shape and a grey of its own, so that no meaning hangs on
colour alone. A point carries its trial's number in `customdata`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import plotly.graph_objects as go

from sweeper.report.metrics import (
    METRICS,
    format_metric,
    format_param,
    short_names,
    value_of,
)
from sweeper.report.pareto import study_front
from sweeper.report.statistics import Interval
from sweeper.report.theme import PALETTES, Theme, layout, say
from sweeper.store.rows import StudyRow, TrialRow

LABELLED_FRONT = 12
"""Fronts of up to this many trials are labelled point by point; longer ones would be a blot."""
DRAWN = 1500
"""Of one class, more points than this are thinned: one is drawn of those that would coincide."""
_CELLS = 80
_FAINTEST = 0.4


@dataclass(frozen=True, slots=True)
class Certainty:
    """What a study knows of its noise; see `uncertainty`."""

    probabilities: Mapping[int, float] | None = None
    """Trial number -> P(non-dominated) in the plane drawn; None where nothing is known."""
    spreads: Mapping[int, Mapping[str, Interval]] = field(default_factory=dict)
    """Trial number -> metric -> interval over its seeds, for the trials that have several."""


UNKNOWN = Certainty()


@dataclass(frozen=True, slots=True)
class PointKind:
    """How one class of trials is drawn."""

    name: str
    color: str
    """Field of `Palette`."""
    symbol: str
    size: float
    opacity: float = 1.0
    line_width: float = 0.0


FRONT = PointKind("front", "front", "circle", 10)
FEASIBLE = PointKind("feasible", "feasible", "circle", 7, opacity=0.75)
CONTENDED = PointKind("contended", "infeasible", "diamond-open", 8, line_width=1.4)
INFEASIBLE = PointKind("infeasible", "infeasible", "triangle-down-open", 9, line_width=1.4)
DIVERGED = PointKind("diverged", "diverged", "x-thin-open", 8, line_width=1.8)
PRUNED = PointKind("pruned", "infeasible", "triangle-left-open", 8, line_width=1.4)
FAILED = PointKind("error or lost", "failed", "square-open", 8, line_width=1.4)


def kind_of(trial: TrialRow) -> PointKind:
    """The class of a trial apart from the front; anything that ended badly is `FAILED`."""
    if trial.status == "DIVERGED":
        return DIVERGED
    if trial.status == "PRUNED":
        return PRUNED
    if trial.status not in ("COMPLETED", "RUNNING", "QUEUED"):
        return FAILED
    if trial.feasible is False:
        return INFEASIBLE
    return CONTENDED if trial.contended else FEASIBLE


def directions(study: StudyRow, metrics: Iterable[str]) -> dict[str, str]:
    """Metric -> direction: the study's own for its objectives, else the metric's usual one."""
    return {
        metric: study.objectives.get(metric, "maximize" if METRICS[metric].maximize else "minimize")
        for metric in metrics
    }


def pareto_figure(
    study: StudyRow,
    trials: Sequence[TrialRow],
    *,
    x: str | None = None,
    y: str | None = None,
    log: Collection[Literal["x", "y"]] = (),
    certainty: Certainty = UNKNOWN,
    theme: Theme = "light",
) -> go.Figure:
    """Every trial as a point in the plane of two metrics, and the front of these two.

    Where the noise between seeds is known, a point is the fainter the less likely it is to be
    on the front, and the front's trials with several runs carry their intervals. Points grow
    with their number of runs.

    x, y: names in `METRICS`; by default the study's second and first objective. The front is
    a step line, which claims only what was measured: no configuration between two neighbours
    is promised. Trials that ended without a value (diverged, lost, a threshold never reached)
    stand in a row above the plot.
    """
    y = y or next(iter(study.objectives))
    x = x or next(metric for metric in (*study.objectives, "steps_per_second") if metric != y)
    palette = PALETTES[theme]
    axes = directions(study, (x, y))
    best = sorted(study_front(study, trials, axes), key=lambda trial: value_of(trial, x) or 0.0)
    on_front = {trial.number for trial in best}
    drawn: list[TrialRow] = []
    unmeasured: list[TrialRow] = []
    for trial in trials:
        if value_of(trial, x) is not None and value_of(trial, y) is not None:
            drawn.append(trial)
        elif trial.ended_at is not None:
            unmeasured.append(trial)

    figure = go.Figure(layout=layout(theme))
    for kind in (FEASIBLE, CONTENDED, INFEASIBLE, PRUNED, DIVERGED, FAILED):
        rows = [t for t in drawn if t.number not in on_front and kind_of(t) is kind]
        apart = [t for t in unmeasured if kind_of(t) is kind]
        name = f"{kind.name} ({len(rows) + len(apart):,})"
        rows, apart = _thinned(rows, x, y, log), apart[-_CELLS:]
        if rows:
            points = _points(study, rows, kind=kind, certainty=certainty, theme=theme)
            points.update(x=_values(rows, x), y=_values(rows, y), name=name)
            figure.add_trace(points)
        if apart:
            points = _points(study, apart, kind=kind, certainty=certainty, theme=theme)
            place = {trial.number: i for i, trial in enumerate(unmeasured)}
            points.update(
                x=[place[trial.number] for trial in apart],
                y=[0] * len(apart),
                xaxis="x2",
                yaxis="y2",
                name=name,
                showlegend=not rows,
            )
            figure.add_trace(points)
    if unmeasured:
        _make_gutter(figure, len(unmeasured), theme)
    if best:
        line = _points(study, best, kind=FRONT, certainty=certainty, theme=theme)
        line.update(
            x=_values(best, x),
            y=_values(best, y),
            name=f"front{', contended' if best[0].contended else ''} ({len(best)})",
            legendrank=1,
            mode="lines+markers+text" if len(best) <= LABELLED_FRONT else "lines+markers",
            # The corner of what is dominated: fall first where x is maximized, else last.
            line={
                "color": palette.front,
                "width": 2,
                "shape": "vh" if axes[x] == "maximize" else "hv",
            },
            text=[f"#{trial.number}" for trial in best],
            textposition="top right" if axes[x] == "maximize" else "top left",
            textfont={"size": 11, "color": palette.muted},
            cliponaxis=False,
            error_x=_whiskers(best, x, certainty, palette.front),
            error_y=_whiskers(best, y, certainty, palette.front),
        )
        figure.add_trace(line)
    baseline = [trial for trial in drawn if trial.origin == "baseline"]
    if baseline:
        ring = {"symbol": "circle-open", "size": 18, "color": palette.baseline}
        figure.add_trace(
            go.Scatter(
                x=_values(baseline, x),
                y=_values(baseline, y),
                mode="markers",
                name="baseline",
                marker=ring | {"line": {"width": 2.5}},
                hoverinfo="skip",
            )
        )
    figure.update_xaxes(title_text=METRICS[x].label, type="log" if "x" in log else "linear")
    figure.update_yaxes(title_text=METRICS[y].label, type="log" if "y" in log else "linear")
    # The same revision keeps a reader's zoom when new trials arrive; other axes start afresh.
    figure.update_layout(uirevision=f"{x} {y} {sorted(log)}")
    if not drawn:
        say(figure, "No trial has both values yet.", theme)
    return figure


def hover_text(study: StudyRow, trial: TrialRow, certainty: Certainty = UNKNOWN) -> str:
    """Names the configuration: what was searched, what came out, and how it ended."""
    # No <b>: plotly.js draws it with an inline style, which a strict content security policy
    # refuses.
    lines = [f"trial {trial.number}, {_how_it_ended(trial)}"]
    spread = certainty.spreads.get(trial.number, {})
    for metric in dict.fromkeys((*study.objectives, "final_return", "steps_per_second")):
        line = f"{METRICS[metric].label}: {format_metric(metric, value_of(trial, metric))}"
        if metric in spread:
            low, high = (
                format_metric(metric, v) for v in (spread[metric].low, spread[metric].high)
            )
            line += f" ({low} to {high})"
        lines.append(line)
    if certainty.probabilities is not None and kind_of(trial) is FEASIBLE:
        lines.append(f"P(non-dominated): {certainty.probabilities.get(trial.number, 0.0):.0%}")
    names = short_names(list(trial.params))
    lines += [
        f"{html.escape(names[path])} = {html.escape(format_param(value)[:60])}"
        for path, value in trial.params.items()
    ]
    return "<br>".join(lines)


def _how_it_ended(trial: TrialRow) -> str:
    words = trial.status.lower()
    if trial.origin == "baseline":
        words = f"baseline, {words}"
    if trial.status == "COMPLETED" and trial.feasible is False:
        words += ", infeasible"
    return words + (f", {trial.n_runs} runs" if trial.n_runs > 1 else "")


def _make_gutter(figure: go.Figure, n: int, theme: Theme) -> None:
    """A row above the plot for `n` trials that ended without a value for its axes."""
    hidden = {"visible": False, "fixedrange": True}
    figure.update_layout(
        yaxis={"domain": [0, 0.9]},
        # Side by side at a fixed distance, closer when there are many.
        xaxis2=hidden | {"anchor": "y2", "range": [-0.5, max(n, 24)]},
        yaxis2=hidden | {"anchor": "x2", "domain": [0.93, 1], "range": [-1, 1]},
    )
    figure.add_annotation(
        text="no value",
        xref="paper",
        yref="y2",
        x=0,
        y=0,
        xanchor="right",
        xshift=-6,
        showarrow=False,
        font={"size": 11, "color": PALETTES[theme].muted},
    )


def _values(trials: Sequence[TrialRow], metric: str) -> list[float | None]:
    return [value_of(trial, metric) for trial in trials]


def _thinned(
    trials: list[TrialRow], x: str, y: str, log: Collection[Literal["x", "y"]]
) -> list[TrialRow]:
    """One trial of each cell of the plane, once there are too many to tell apart."""
    if len(trials) <= DRAWN:
        return trials
    columns = [
        _cells([value_of(trial, metric) or 0.0 for trial in trials], log=axis in log)
        for metric, axis in ((x, "x"), (y, "y"))
    ]
    return list(dict(zip(zip(*columns, strict=True), trials, strict=True)).values())


def _cells(values: list[float], *, log: bool) -> list[int]:
    scaled = [math.log(max(value, 1e-12)) for value in values] if log else values
    low, high = min(scaled), max(scaled)
    return [int(_CELLS * (value - low) / ((high - low) or 1.0)) for value in scaled]


def _whiskers(
    trials: Sequence[TrialRow], metric: str, certainty: Certainty, color: str
) -> dict[str, Any] | None:
    """Plotly's error bars, for the trials whose interval is known."""
    found = [certainty.spreads.get(trial.number, {}).get(metric) for trial in trials]
    if not any(found):
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [i.high - i.value if i else 0.0 for i in found],
        "arrayminus": [i.value - i.low if i else 0.0 for i in found],
        "color": color,
        "thickness": 1,
        "width": 3,
    }


def _points(
    study: StudyRow,
    trials: Sequence[TrialRow],
    *,
    kind: PointKind,
    certainty: Certainty,
    theme: Theme,
) -> go.Scatter:
    """Markers that name their trials; the caller places them."""
    color = getattr(PALETTES[theme], kind.color)
    counts = kind in (FRONT, FEASIBLE)
    opacity: float | list[float] = kind.opacity
    if counts and certainty.probabilities is not None:
        chances = [certainty.probabilities.get(trial.number, 0.0) for trial in trials]
        opacity = [_FAINTEST + (1 - _FAINTEST) * chance for chance in chances]
    return go.Scatter(
        mode="markers",
        marker={
            "symbol": kind.symbol,
            "size": [kind.size + min(2 * max(0, t.n_runs - 1), 8) for t in trials]
            if counts
            else kind.size,
            "color": color,
            "opacity": opacity,
            "line": {"width": kind.line_width, "color": color},
        },
        customdata=[[trial.number] for trial in trials],
        hovertext=[hover_text(study, trial, certainty) for trial in trials],
        hovertemplate="%{hovertext}<extra></extra>",
    )
