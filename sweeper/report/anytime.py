"""Which configuration is best with less time: the front of training time against return.

It is read off the learning curves of runs whose schedules were set for the full budget, and
says so: a shorter run of its own may do better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from sweeper.report.metrics import format_number
from sweeper.report.pareto import candidates, has_study_budget
from sweeper.report.theme import PALETTES, Theme, layout, say
from sweeper.store.rows import CurvePoint, StudyRow, TrialRow

MAX_TRIALS = 150
"""Curves are read of the trials with the best returns, at the end and over time; so many."""
MOMENTS = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Leader:
    """The best trial from one moment of its training on, until the next leader's."""

    seconds: float
    number: int
    training_return: float
    """Its mean training return at that moment, over its runs."""


@dataclass(frozen=True, slots=True)
class Anytime:
    """Who leads after how much training time."""

    leaders: tuple[Leader, ...]
    """In order of time; empty before anything is known."""
    seconds: tuple[float, ...]
    """[m] the moments looked at, evenly spaced up to the budget."""
    best: tuple[float | None, ...]
    """[m] the leader's return at each."""
    numbers: tuple[int | None, ...]
    """[m] the leader's number at each."""


def contenders(study: StudyRow, trials: Sequence[TrialRow]) -> list[TrialRow]:
    """The trials whose curves are worth reading: feasible, of the study's budget, and among
    the best by their return at the end or by its mean over time."""
    rows = candidates([t for t in trials if has_study_budget(study, t)], ("training_return",))
    half = MAX_TRIALS // 2
    by_end = sorted(rows, key=lambda t: t.training_return or 0.0, reverse=True)[:half]
    by_mean = sorted(
        (t for t in rows if t.return_area is not None),
        key=lambda t: t.return_area or 0.0,
        reverse=True,
    )[:half]
    return list({t.trial_id: t for t in (*by_end, *by_mean)}.values())


def anytime(
    trials: Sequence[TrialRow], curves: Mapping[int, Sequence[Sequence[CurvePoint]]]
) -> Anytime:
    """curves: trial_id -> the curve of each run. A trial's return at a moment is the mean over
    its runs of the last measurement up to then; it has none before each of them has one.
    """
    known = [(t.number, curves[t.trial_id]) for t in trials if curves.get(t.trial_id)]
    if not known:
        return Anytime((), (), (), ())
    end = max(curve[-1].elapsed_seconds for _, runs in known for curve in runs)
    moments = np.linspace(end / MOMENTS, end, MOMENTS)
    returns = np.array([_returns(runs, moments) for _, runs in known])  # [trials, moments]
    filled = np.where(np.isnan(returns), -np.inf, returns)
    first = filled.argmax(axis=0)
    best = filled.max(axis=0)
    leaders: list[Leader] = []
    numbers: list[int | None] = []
    for moment, row, value in zip(moments, first, best, strict=True):
        if not np.isfinite(value):
            numbers.append(None)
            continue
        number = known[int(row)][0]
        numbers.append(number)
        if not leaders or leaders[-1].number != number:
            leaders.append(Leader(float(moment), number, float(value)))
    return Anytime(
        leaders=tuple(leaders),
        seconds=tuple(map(float, moments)),
        best=tuple(float(v) if np.isfinite(v) else None for v in best),
        numbers=tuple(numbers),
    )


def anytime_figure(front: Anytime, *, theme: Theme = "light") -> go.Figure:
    """The leader's return over training time; each change of leader is marked."""
    palette = PALETTES[theme]
    figure = go.Figure(layout=layout(theme))
    figure.add_trace(
        go.Scatter(
            x=front.seconds,
            y=front.best,
            mode="lines",
            line={"color": palette.front, "width": 2},
            customdata=[[number] for number in front.numbers],
            hovertemplate="%{x:.3g} s: trial %{customdata[0]}, return %{y:.4g}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[leader.seconds for leader in front.leaders],
            y=[leader.training_return for leader in front.leaders],
            mode="markers+text",
            marker={"color": palette.front, "size": 7},
            text=_labels(front),
            textposition="bottom right",
            textfont={"size": 11, "color": palette.muted},
            customdata=[[leader.number] for leader in front.leaders],
            hovertext=[
                f"trial {leader.number} leads from {format_number(leader.seconds)} s on"
                for leader in front.leaders
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )
    figure.update_xaxes(title_text="training time (s)", rangemode="tozero")
    figure.update_yaxes(title_text="training return")
    figure.update_layout(showlegend=False, margin={"t": 16}, uirevision="anytime")
    if not front.leaders:
        say(figure, "No completed trial has a learning curve yet.", theme)
    return figure


def _labels(front: Anytime) -> list[str]:
    """Numbers beside the marks, where there is room for them."""
    room = front.seconds[-1] / 12 if front.seconds else 0.0
    result, last = [], -room
    for leader in front.leaders:
        labelled = leader.seconds - last >= room
        result.append(f"#{leader.number}" if labelled else "")
        last = leader.seconds if labelled else last
    return result


def _returns(runs: Sequence[Sequence[CurvePoint]], moments: Floats) -> Floats:
    """[moments]; NaN before every run has a measurement."""
    result = []
    for curve in runs:
        elapsed = np.array([point.elapsed_seconds for point in curve])
        values = np.array([point.training_return for point in curve])
        index = np.searchsorted(elapsed, moments, side="right") - 1
        result.append(np.where(index >= 0, values[np.maximum(index, 0)], np.nan))
    return np.asarray(np.mean(result, axis=0))
