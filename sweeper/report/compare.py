"""A few trials side by side: how they learned, where their time went, what sets them apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from sweeper.report.metrics import (
    METRICS,
    format_metric,
    format_param,
    format_seconds,
    value_of,
)
from sweeper.report.statistics import Interval
from sweeper.report.theme import PALETTES, Theme, layout, say
from sweeper.store.rows import CurvePoint, StudyRow, TrialRow

MOST = 6
"""Trials that can be told apart in one plot."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_HUES = (0, 3, 5, 4, 1, 6)


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of the configuration in which the trials differ."""

    path: str
    values: tuple[str, ...]
    """One a trial; `–` where it has no such key."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric of each trial."""

    metric: str
    title: str
    unit: str
    values: tuple[str, ...]
    intervals: tuple[str, ...]
    """`low to high` over seeds; empty for a trial with one run."""
    best: tuple[bool, ...]


def differences(trials: Sequence[TrialRow]) -> tuple[Difference, ...]:
    """What the resolved configurations do not share, apart from the seed."""
    flat = [_flatten("", json.loads(trial.config_json)) for trial in trials]
    paths = dict.fromkeys(path for config in flat for path in config if path != "seed")
    rows = (Difference(path, tuple(config.get(path, "–") for config in flat)) for path in paths)
    return tuple(row for row in rows if len(set(row.values)) > 1)


def measured(
    study: StudyRow,
    trials: Sequence[TrialRow],
    spreads: Mapping[int, Mapping[str, Interval]],
) -> tuple[Measured, ...]:
    """Every metric that some trial has, the study's objectives first.

    spreads: trial number -> metric -> interval.
    """
    result = []
    for name in dict.fromkeys((*study.objectives, *METRICS)):
        values = [value_of(trial, name) for trial in trials]
        known = [value for value in values if value is not None]
        if not known:
            continue
        metric = METRICS[name]
        up = study.objectives.get(name, "maximize" if metric.maximize else "minimize") == "maximize"
        top = max(known) if up else min(known)
        found = [spreads.get(trial.number, {}).get(name) for trial in trials]
        result.append(
            Measured(
                metric=name,
                title=metric.title,
                unit=metric.unit,
                values=tuple(format_metric(name, value) for value in values),
                intervals=tuple(
                    f"{format_metric(name, i.low)} to {format_metric(name, i.high)}" if i else ""
                    for i in found
                ),
                best=tuple(value == top and len(set(known)) > 1 for value in values),
            )
        )
    return tuple(result)


def curves_figure(
    trials: Sequence[TrialRow],
    curves: Mapping[int, Sequence[Sequence[CurvePoint]]],
    *,
    x: Literal["seconds", "steps"] = "seconds",
    theme: Theme = "light",
) -> go.Figure:
    """The training return of each trial, mean over its runs with tuning seeds, which all trials
    have, as far as all of them reach.

    curves: trial_id -> the curve of each run.
    """
    palette = PALETTES[theme]
    figure = go.Figure(layout=layout(theme))
    for i, trial in enumerate(trials):
        runs = [
            np.array(
                [
                    (p.elapsed_seconds if x == "seconds" else p.env_steps, p.training_return)
                    for p in curve
                ]
            )
            for curve in curves.get(trial.trial_id, ())
            if curve[0].seed_kind == "tuning"
        ]
        if not runs:
            continue
        start, end = max(run[0, 0] for run in runs), min(run[-1, 0] for run in runs)
        grid = np.linspace(start, max(start, end), 200) if len(runs) > 1 else runs[0][:, 0]
        mean = np.mean([np.interp(grid, run[:, 0], run[:, 1]) for run in runs], axis=0)
        count = f", mean of {len(runs)}" if len(runs) > 1 else ""
        figure.add_trace(
            go.Scatter(
                x=grid,
                y=mean,
                mode="lines",
                name=f"trial {trial.number}{count}",
                line={
                    "color": palette.phases[_HUES[i % MOST]],
                    "dash": _DASHES[i % MOST],
                    "width": 2,
                },
            )
        )
    figure.update_xaxes(
        title_text="training time (s)" if x == "seconds" else "env steps", rangemode="tozero"
    )
    figure.update_yaxes(title_text="training return (mean of 100 episodes)")
    figure.update_layout(hovermode="x unified", uirevision=x, showlegend=True)
    if not figure.data:
        say(figure, "None of these trials has completed a run yet.", theme)
    return figure


def phases_figure(trials: Sequence[TrialRow], *, theme: Theme = "light") -> go.Figure:
    """A bar a trial, cut into the shares of its budget that each phase took."""
    palette = PALETTES[theme]
    figure = go.Figure(layout=layout(theme))
    known = [
        trial for trial in trials if trial.elapsed_seconds and trial.rollout_seconds is not None
    ]
    parts = [_phases(trial) for trial in known]
    patterns = ("", "/", ".", "", "")
    for i, name in enumerate(parts[0] if parts else ()):
        seconds = [part[name] for part in parts]
        shares = [s / sum(part.values()) for s, part in zip(seconds, parts, strict=True)]
        figure.add_trace(
            go.Bar(
                x=shares,
                y=[f"trial {trial.number}" for trial in known],
                orientation="h",
                name=name,
                marker={
                    "color": palette.phases[(0, 1, 2, 3, 6)[i]],
                    "pattern": {"shape": patterns[i], "size": 5, "solidity": 0.2},
                },
                customdata=[format_seconds(s) for s in seconds],
                hovertemplate="%{y}, " + name + ": %{customdata}, %{x:.0%}<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack", legend={"traceorder": "normal"})
    figure.update_xaxes(title_text="share of the budget", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(autorange="reversed", showgrid=False)
    if not known:
        say(figure, "The phases are known when a run has ended.", theme)
    return figure


def _phases(trial: TrialRow) -> dict[str, float]:
    rollout = trial.rollout_seconds or 0.0
    inference, env_wait = trial.inference_seconds or 0.0, trial.env_wait_seconds or 0.0
    update, elapsed = trial.update_seconds or 0.0, trial.elapsed_seconds or 0.0
    return {
        "inference": inference,
        "env wait": env_wait,
        "bookkeeping": max(0.0, rollout - inference - env_wait),
        "update": update,
        "other": max(0.0, elapsed - rollout - update),
    }


def _flatten(path: str, value: Any) -> dict[str, str]:
    if isinstance(value, dict) and value:
        return {
            key: text
            for name, inner in value.items()
            for key, text in _flatten(f"{path}.{name}" if path else name, inner).items()
        }
    return {path: format_param(value) if not isinstance(value, list | dict) else json.dumps(value)}
