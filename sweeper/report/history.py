"""A study over the time it took: how its front grew, and which run had which cores when."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import plotly.graph_objects as go

from sweeper.report.metrics import format_seconds
from sweeper.report.pareto import hypervolume_over_time, hypervolume_over_trials
from sweeper.report.theme import PALETTES, Theme, layout, say
from sweeper.store.rows import SlotRow, StudyRow, TrialRow

MAX_BARS = 400
"""Bars of the latest runs that a timeline draws; more cannot be told apart."""


def hypervolume_figure(
    study: StudyRow,
    trials: Sequence[TrialRow],
    *,
    x: Literal["time", "trials"] = "time",
    theme: Theme = "light",
) -> go.Figure:
    """How the front grew over the wall-clock time of the study, or trial by trial, as a step
    line.

    The volume is the share of the box between the worst and the best value seen of each
    objective, so that it has no unit and ends where the present front stands.
    """
    palette = PALETTES[theme]
    figure = go.Figure(layout=layout(theme))
    at: list[float]
    if x == "trials":
        numbers, shares = hypervolume_over_trials(study, trials)
        at, title, after = list(numbers), "trial", "trial %{x}"
    else:
        seconds, shares = hypervolume_over_time(study, trials)
        unit, scale = _time_unit(seconds[-1] if seconds else 0.0)
        at = [second / scale for second in seconds]
        title, after = f"time since the study began ({unit})", f"%{{x:.3g}} {unit}"
    figure.add_trace(
        go.Scatter(
            x=at,
            y=shares,
            mode="lines",
            line={"color": palette.front, "width": 2, "shape": "hv"},
            hovertemplate=f"%{{y:.1%}} after {after}<extra></extra>",
        )
    )
    figure.update_xaxes(title_text=title, rangemode="tozero")
    figure.update_yaxes(title_text="hypervolume", range=[0, 1.02], tickformat=".0%")
    figure.update_layout(showlegend=False, margin={"t": 16}, uirevision=f"hypervolume {x}")
    if not at:
        say(figure, "No trial stands on the front yet.", theme)
    return figure


def timeline_figure(
    study: StudyRow, runs: Sequence[SlotRow], *, now: datetime, theme: Theme = "light"
) -> go.Figure:
    """A bar a run on the row of its cores, from its start to its end (or `now`).

    A run that was not pinned, or whose cores are not known yet, stands in the first row of its
    host that was free. What ended badly is hatched.
    """
    palette = PALETTES[theme]
    figure = go.Figure(layout=layout(theme))
    shown = [run for run in runs if run.started_at is not None][-MAX_BARS:]
    rows = dict(zip((run.run_id for run in shown), _slots(shown, now), strict=True))
    began = min((run.started_at for run in shown if run.started_at), default=now)
    # Bars are drawn with their set-up and evaluation: the whole time that cores were taken.
    lengths = {run.run_id: _seconds(run.started_at, run.ended_at or now) for run in shown}
    span = max((_seconds(began, run.ended_at or now) for run in shown), default=0.0)
    unit, scale = _time_unit(span)
    kinds = {
        "completed": (palette.front, ""),
        "running": (palette.feasible, "."),
        "pruned": (palette.infeasible, "\\"),
        "ended badly": (palette.failed, "/"),
    }
    for kind, (color, pattern) in kinds.items():
        chosen = [run for run in shown if _outcome(run) == kind]
        if not chosen:
            continue
        figure.add_trace(
            go.Bar(
                base=[_seconds(began, run.started_at or now) / scale for run in chosen],
                x=[lengths[run.run_id] / scale for run in chosen],
                y=[rows[run.run_id] for run in chosen],
                orientation="h",
                name=f"{kind} ({len(chosen)})",
                marker={
                    "color": color,
                    "line": {"width": 1, "color": palette.paper},
                    "pattern": {"shape": pattern, "size": 5, "solidity": 0.25},
                },
                customdata=[[run.number] for run in chosen],
                hovertext=[
                    f"trial {run.number}, {run.kind}, {run.status.lower()}<br>"
                    f"{format_seconds(lengths[run.run_id])} on {html.escape(rows[run.run_id])}"
                    for run in chosen
                ],
                hovertemplate="%{hovertext}<extra></extra>",
                width=0.8,
            )
        )
    since = (
        "the study began" if len(shown) == len(runs) else f"the first of the last {MAX_BARS} runs"
    )
    figure.update_xaxes(title_text=f"time since {since} ({unit})", rangemode="tozero")
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=sorted(set(rows.values()), key=_natural, reverse=True),
        showgrid=False,
    )
    figure.update_layout(barmode="overlay", uirevision=f"timeline {study.study_id}")
    if not shown:
        say(figure, "No run has started yet.", theme)
    return figure


def _slots(runs: Sequence[SlotRow], now: datetime) -> list[str]:
    """The row of each run."""
    free_at: dict[str, list[datetime]] = {}
    result = []
    several_hosts = len({run.hostname for run in runs if run.hostname}) > 1
    for run in runs:
        assert run.started_at is not None
        host = f"{run.hostname} " if several_hosts and run.hostname else ""
        if run.leased_cores:
            result.append(f"{host}core {run.leased_cores.replace(',', ', ')}")
            continue
        slots = free_at.setdefault(host, [])
        place = next((i for i, at in enumerate(slots) if at <= run.started_at), len(slots))
        slots[place : place + 1] = [run.ended_at or now]
        result.append(f"{host}slot {place + 1}")
    return result


def _outcome(run: SlotRow) -> str:
    if run.ended_at is None:
        return "running"
    return {"COMPLETED": "completed", "PRUNED": "pruned"}.get(run.status, "ended badly")


def _seconds(start: datetime | None, end: datetime) -> float:
    return 0.0 if start is None else max(0.0, (end - start).total_seconds())


def _natural(label: str) -> tuple[str, list[int]]:
    """Core 2 before core 10."""
    digits = "".join(c if c.isdigit() else " " for c in label.rpartition("core")[2])
    return label.rpartition("core")[0], [int(word) for word in digits.split()]


def _time_unit(seconds: float) -> tuple[str, float]:
    if seconds < 120:
        return "s", 1.0
    return ("min", 60.0) if seconds < 7200 else ("h", 3600.0)
