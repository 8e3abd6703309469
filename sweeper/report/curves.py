"""A trial's runs -> Plotly figures: how it learned, and where its time went."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from sweeper.report.metrics import format_seconds
from sweeper.report.theme import PALETTES, Theme, layout, say, translucent
from sweeper.store.rows import MeasurementRow, RunRow

CURVES = {
    "training_return": "training return (mean of 100 episodes)",
    "episode_length": "episode length (steps)",
    "steps_per_second": "training speed (env steps/s)",
    "learning_rate": "learning rate",
    "approx_kl": "approximate KL divergence (nats)",
    "clip_fraction": "clipped share of samples",
    "entropy": "entropy of the policy (nats)",
    "policy_loss": "policy loss",
    "value_loss": "value loss",
    "explained_variance": "explained variance of returns",
    "grad_norm": "gradient norm before clipping",
    "kfac_nu": "trust-region scale of K-FAC",
    "cpu_utilization": "CPU utilization (share of reserved cores)",
    "rss_bytes": "resident memory (bytes)",
}
"""Column of `measurements` -> what it is called on an axis."""


def curve_figure(
    runs: Mapping[str, Sequence[MeasurementRow]],
    *,
    x: Literal["seconds", "steps"] = "seconds",
    y: str = "training_return",
    test: Collection[str] = (),
    deadline: float | None = None,
    rungs: Sequence[float] = (),
    theme: Theme = "light",
) -> go.Figure:
    """A quantity (in `CURVES`) of each run (label -> measurements) over the budget it spent.

    Runs with `test` seeds (labels) have a color and a dash of their own. With several runs of
    either kind the single ones are faint, and their mean is drawn, with its 95% bootstrap
    interval over runs, as far as all of them reach. `deadline`, and the `rungs` at which runs
    may be pruned, are in the unit of x.
    """
    palette = PALETTES[theme]
    figure = go.Figure(layout=layout(theme))
    curves = {label: _curve(rows, x, y) for label, rows in runs.items()}
    curves = {label: curve for label, curve in curves.items() if len(curve)}
    tuning = {label: curve for label, curve in curves.items() if label not in test}
    tested = {label: curve for label, curve in curves.items() if label in test}
    _draw_runs(figure, tuning, palette.front, "solid", alone=not tested)
    _draw_runs(figure, tested, palette.confirmed, "dash", alone=not tuning, what=", test seeds")
    for number, rung in enumerate(rungs, start=1):
        _mark(figure, rung, f"rung {number}", palette.muted, "left")
    if deadline is not None:
        _mark(figure, deadline, "deadline", palette.muted, "right")
    figure.update_xaxes(
        title_text="training time (s)" if x == "seconds" else "env steps", rangemode="tozero"
    )
    figure.update_yaxes(title_text=CURVES[y])
    figure.update_layout(hovermode="x unified", uirevision=f"{x} {y}")
    if len(curves) <= 1:
        figure.update_layout(margin={"t": 16})  # no legend stands there
    if not curves:
        words = "No episode has ended yet." if y == "training_return" else "Not measured yet."
        say(figure, words, theme)
    return figure


def _draw_runs(
    figure: go.Figure,
    curves: Mapping[str, NDArray[np.float64]],
    color: str,
    dash: str,
    *,
    alone: bool,
    what: str = "",
) -> None:
    """Runs of one kind, faint under their mean if there are several, and then named by the
    pointer only. alone: whether the figure has no other kind."""
    single = len(curves) == 1
    for label, curve in curves.items():
        figure.add_trace(
            go.Scatter(
                x=curve[:, 0],
                y=curve[:, 1],
                mode="lines" if len(curve) > 1 else "markers",
                name=label,
                line={"color": color, "width": 2.5 if single else 1, "dash": dash},
                opacity=1 if single else 0.45,
                showlegend=single and not alone,
            )
        )
    if (band := _band(list(curves.values()))) is None:
        return
    grid, middle, low, high = band
    figure.add_trace(
        go.Scatter(
            x=[*grid, *grid[::-1]],
            y=[*high, *low[::-1]],
            mode="lines",
            fill="toself",
            line={"width": 0},
            fillcolor=translucent(color, 0.18),
            name=f"95% interval{what or ' over seeds'}",
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=grid,
            y=middle,
            mode="lines",
            name=f"mean of {len(curves)} runs{what}",
            line={"color": color, "width": 3, "dash": dash},
        )
    )


def _mark(figure: go.Figure, x: float, words: str, color: str, anchor: str) -> None:
    """A dotted line across the budget, with words at its foot."""
    figure.add_vline(
        x=x,
        line={"color": color, "width": 1, "dash": "dot"},
        annotation={
            "text": words,
            "font": {"size": 11, "color": color},
            "xanchor": anchor,
            "y": 0,
            "yanchor": "bottom",
        },
    )


def phase_figure(run: RunRow, *, theme: Theme = "light") -> go.Figure:
    """Where a run's budget went: one bar whose parts sum to the elapsed seconds."""
    palette = PALETTES[theme]
    figure = go.Figure(layout=layout(theme))
    parts = phase_seconds(run)
    total = sum(parts.values())
    patterns = ("", "/", ".", "", "/", "", "")
    for (name, seconds), color, pattern in zip(
        parts.items(), palette.phases, patterns, strict=True
    ):
        if seconds <= 0:
            continue
        share = f"{100 * seconds / total:.0f}%"
        figure.add_trace(
            go.Bar(
                x=[seconds],
                y=[""],
                orientation="h",
                name=f"{name} {share}",
                marker={"color": color, "pattern": {"shape": pattern, "size": 5, "solidity": 0.2}},
                hovertemplate=f"{name}: {format_seconds(seconds)}, {share}<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack", legend={"traceorder": "normal"}, bargap=0.1)
    figure.update_xaxes(title_text="seconds of the budget")
    figure.update_yaxes(visible=False)
    if not total:
        say(figure, "The phases are known when the run has ended.", theme)
    return figure


def phase_seconds(run: RunRow) -> dict[str, float]:
    """Phase -> own seconds, in the order in which an update passes through them."""
    inference = run.inference_seconds or 0.0
    env_wait = run.env_wait_seconds or 0.0
    optimizer = run.optimizer_seconds or 0.0
    return {
        "inference": inference,
        "env wait": env_wait,
        "bookkeeping": max(0.0, (run.rollout_seconds or 0.0) - inference - env_wait),
        "gradient": max(0.0, (run.update_seconds or 0.0) - optimizer),
        "optimizer": optimizer,
        "normalize": run.normalize_seconds or 0.0,
        "other": run.other_seconds or 0.0,
    }


def _curve(
    rows: Sequence[MeasurementRow], x: Literal["seconds", "steps"], y: str
) -> NDArray[np.float64]:
    """[n, 2] float64: position on the budget, value."""
    return np.array(
        [
            (row.elapsed_seconds if x == "seconds" else row.env_steps, value)
            for row in rows
            if (value := getattr(row, y)) is not None
        ],
        dtype=np.float64,
    ).reshape(-1, 2)


def _band(
    curves: Sequence[NDArray[np.float64]], *, points: int = 200
) -> tuple[NDArray[np.float64], ...] | None:
    """(positions, mean, low, high), each [points], where all of several curves reach.

    The interval is the percentile bootstrap of the mean over curves.
    """
    if len(curves) < 2:
        return None
    start = max(curve[0, 0] for curve in curves)
    end = min(curve[-1, 0] for curve in curves)
    if start >= end:
        return None
    grid = np.linspace(start, end, points)
    lines = np.array([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in curves])
    drawn = np.random.default_rng(0).integers(len(lines), size=(400, len(lines)))
    low, high = np.quantile(lines[drawn].mean(axis=1), (0.025, 0.975), axis=0)
    return grid, lines.mean(axis=0), low, high
