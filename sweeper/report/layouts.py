"""Ways to lay out environments over processes, measured: which one to use, and why."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from sweeper.report.tables import Table
from sweeper.report.theme import PALETTES, Theme, layout

CLOSE = 0.95
"""Speeds within this share of the best are as good: fewer environments and cores decide."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`n_envs` environments and what steps them."""

    vec_env: Literal["serial", "subproc", "gymnasium"]
    n_envs: int
    n_workers: int
    """0 but for `subproc`."""
    cores: int
    vector: str | None = None
    """`env.vector.make`, where it must be given."""

    @property
    def name(self) -> str:
        """Of its kind, whatever the number of environments."""
        if self.vec_env == "subproc":
            return f"subproc, {self.n_workers} worker{'s' if self.n_workers > 1 else ''}"
        return self.vector or self.vec_env

    @property
    def envs_per_worker(self) -> int:
        """Of the worker with most; all where there is none."""
        return -(-self.n_envs // max(1, self.n_workers))

    @property
    def yaml(self) -> str:
        """What to write below a study's `trial:`."""
        lines = ["trial:"]
        if self.vector:
            lines += ["  env:", "    vector:", f"      make: {self.vector}"]
        lines += ["  parallelism:", f"    vec_env: {self.vec_env}", f"    n_envs: {self.n_envs}"]
        if self.n_workers:
            lines.append(f"    envs_per_worker: {self.envs_per_worker}")
        return "\n".join([*lines, f"    cores: {self.cores}"])


@dataclass(frozen=True, slots=True)
class Measured:
    """A layout's results, one a repeat."""

    layout: Layout
    rates: tuple[float, ...]
    """Env steps a second, random actions, no learning."""
    training_rates: tuple[float, ...] = ()
    """Env steps a second of whole training; empty when none was done."""
    returns: tuple[float, ...] = ()
    """final_return after equal wall-clock."""

    @property
    def rate(self) -> float:
        """Median env steps a second."""
        return median(self.rates)

    @property
    def training_rate(self) -> float | None:
        """Median env steps a second of training."""
        return median(self.training_rates) if self.training_rates else None

    @property
    def final_return(self) -> float | None:
        """Median return after equal wall-clock."""
        return median(self.returns) if self.returns else None


@dataclass(frozen=True, slots=True)
class Bare:
    """Bare loops of one environment each, side by side."""

    processes: int
    rates: tuple[float, ...]
    """Env steps a second of all together, one a repeat."""

    @property
    def rate(self) -> float:
        """Median."""
        return median(self.rates)


@dataclass(frozen=True, slots=True)
class LayoutReport:
    """Everything that was measured of one environment."""

    env: str
    bare: tuple[Bare, ...]
    """By rising number of processes."""
    measured: tuple[Measured, ...]

    @property
    def trained(self) -> bool:
        """Whether whole training was measured."""
        return any(one.training_rates for one in self.measured)

    @property
    def limit(self) -> float:
        """The most that bare environments gave."""
        return max(one.rate for one in self.bare)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to use."""

    layout: Layout
    why: str


def recommend(report: LayoutReport) -> Recommendation:
    """The fastest layout; of those within 5% of it the one with fewest environments (fewer
    cost fewer samples), then cores, then processes. By training speed where it was measured."""

    def speed(one: Measured) -> float:
        return (one.training_rate or 0.0) if report.trained else one.rate

    fastest = max(report.measured, key=speed)
    best = min(
        (one for one in report.measured if speed(one) >= CLOSE * speed(fastest)),
        key=lambda one: (one.layout.n_envs, one.layout.cores, one.layout.n_workers),
    )
    what = "env steps/s of whole training" if report.trained else "env steps/s"
    reasons = [f"{speed(best):,.0f} {what}"]
    if not report.trained:
        reasons.append(
            f"{best.rate / report.limit:.0%} of what bare environments give on "
            f"{report.bare[-1].processes} cores"
        )
    if best is not fastest:
        reasons.append(
            f"within {1 - CLOSE:.0%} of the fastest ({fastest.layout.name}, "
            f"{fastest.layout.n_envs} envs: {speed(fastest):,.0f}) with less"
        )
    for kind in ("serial", "subproc", "gymnasium"):
        others = [one for one in report.measured if one.layout.vec_env == kind]
        if kind != best.layout.vec_env and others:
            other = max(others, key=speed)
            reasons.append(
                f"{speed(best) / speed(other):.2f}x the best {kind} ({other.layout.n_envs} envs)"
            )
    if report.trained:
        highest = max(report.measured, key=lambda one: one.final_return or float("-inf"))
        if best.final_return is not None and highest.final_return is not None:
            reasons.append(
                f"return {best.final_return:.1f} after equal time; the highest was "
                f"{highest.final_return:.1f} ({highest.layout.name}, {highest.layout.n_envs} envs)"
            )
    return Recommendation(best.layout, "; ".join(reasons))


def layout_table(report: LayoutReport) -> Table:
    """One row a layout, after the bare environments."""
    head = ["layout", "envs", "cores", "env steps/s", "spread", "of the limit"]
    if report.trained:
        head += ["training steps/s", "return"]
    blank = [""] * (len(head) - 6)
    rows = [
        ("bare loops", f"{one.processes}", f"{one.processes}", *_rate(report, one.rates), *blank)
        for one in report.bare
    ]
    for one in report.measured:
        trained = [
            "–" if value is None else format(value, spec)
            for value, spec in ((one.training_rate, ",.0f"), (one.final_return, ".1f"))
        ]
        where = one.layout
        rows.append(
            (
                where.name,
                f"{where.n_envs}",
                f"{where.cores}",
                *_rate(report, one.rates),
                *trained[: len(blank)],
            )
        )
    return Table(tuple(head), tuple(rows))


def layout_figure(report: LayoutReport, *, theme: Theme = "light") -> go.Figure:
    """Speed over the number of environments, a line a layout, the bare limits dashed; beside
    it, where it was measured, whole training and its return. Bars: least to most."""
    palette = PALETTES[theme]
    panels: list[tuple[str, Any]] = [("env steps/s", lambda one: one.rates)]
    if report.trained:
        panels += [
            ("training, env steps/s", lambda one: one.training_rates),
            ("return after equal time", lambda one: one.returns),
        ]
    figure = make_subplots(cols=len(panels), figure=go.Figure(layout=layout(theme)))
    template = layout(theme)
    names = list(dict.fromkeys(one.layout.name for one in report.measured))
    counts = sorted({one.layout.n_envs for one in report.measured})
    for column, (title, values_of) in enumerate(panels, start=1):
        for number, name in enumerate(names):
            color = palette.phases[(0, 3, 5, 1, 4)[number % 5]]
            points = [
                (one.layout.n_envs, values_of(one))
                for one in report.measured
                if one.layout.name == name and values_of(one)
            ]
            figure.add_trace(
                go.Scatter(
                    x=[n_envs for n_envs, _ in points],
                    y=[median(values) for _, values in points],
                    error_y={
                        "type": "data",
                        "symmetric": False,
                        "array": [max(values) - median(values) for _, values in points],
                        "arrayminus": [median(values) - min(values) for _, values in points],
                        "thickness": 1,
                    },
                    name=name,
                    legendgroup=name,
                    showlegend=column == 1,
                    mode="lines+markers",
                    line={"color": color, "width": 2},
                    marker={
                        "size": 8,
                        "symbol": ("circle", "diamond", "square", "x", "cross")[number % 5],
                    },
                    hovertemplate="%{x} envs: %{y:,.0f}<extra>" + name + "</extra>",
                ),
                row=1,
                col=column,
            )
        figure.update_xaxes(
            template.xaxis,
            type="log",
            title_text="environments",
            tickvals=counts,
            row=1,
            col=column,
        )
        figure.update_yaxes(template.yaxis, title_text=title, row=1, col=column)
        if column < 3:
            figure.update_yaxes(rangemode="tozero", row=1, col=column)
    for number, one in enumerate(report.bare):
        figure.add_hline(
            one.rate,
            row=1,
            col=1,
            line={"color": palette.muted, "width": 1, "dash": "dash"},
            annotation={
                "text": f"bare, {one.processes} process{'es' if one.processes > 1 else ''}",
                "font": {"size": 11, "color": palette.muted},
                "xanchor": "left",
                "x": 0,
                # Lines that lie close together must not share a place for their words.
                "yanchor": "bottom" if number else "top",
            },
        )
    return figure


def _rate(report: LayoutReport, rates: tuple[float, ...]) -> tuple[str, str, str]:
    middle = median(rates)
    spread = (max(rates) - min(rates)) / middle
    return f"{middle:,.0f}", f"{spread:.0%}", f"{middle / report.limit:.0%}"
