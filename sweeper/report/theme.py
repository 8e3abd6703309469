"""One look for every figure: a palette that the colour-blind can read, light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import plotly.graph_objects as go

Theme = Literal["light", "dark"]

FONT = "-apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Palette:
    """Named for what it marks. Hues after Okabe & Ito (2008), greys by lightness."""

    front: str
    feasible: str
    baseline: str
    confirmed: str
    infeasible: str
    diverged: str
    failed: str
    ink: str
    muted: str
    grid: str
    paper: str
    phases: tuple[str, ...]


PALETTES: dict[Theme, Palette] = {
    "light": Palette(
        front="#0072b2",
        feasible="#56a3d0",
        baseline="#d55e00",
        confirmed="#007a5a",
        infeasible="#9a9a9a",
        diverged="#6e6e6e",
        failed="#4a4a4a",
        ink="#1c2126",
        muted="#5b6670",
        grid="#e6e9ec",
        paper="#ffffff",
        phases=("#0072b2", "#56b4e9", "#a9c7da", "#d55e00", "#e69f00", "#009e73", "#c4c8cc"),
    ),
    "dark": Palette(
        front="#56b4e9",
        feasible="#5596bf",
        baseline="#f0a13a",
        confirmed="#2fb58c",
        infeasible="#7d848a",
        diverged="#a3a9ae",
        failed="#c6cacd",
        ink="#e8ebee",
        muted="#a1abb4",
        grid="#2a3138",
        paper="#14181c",
        phases=("#56b4e9", "#2f7fb0", "#5f7f93", "#f0a13a", "#c97b1b", "#2fb58c", "#59626a"),
    ),
}


def layout(theme: Theme) -> go.Layout:
    """Fonts, axes, margins and hover labels that all figures share."""
    palette = PALETTES[theme]
    axis = {
        "gridcolor": palette.grid,
        "linecolor": palette.muted,
        "tickcolor": palette.muted,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "zeroline": False,
        "automargin": True,
        "exponentformat": "none",
        "separatethousands": True,
        "title": {"standoff": 10, "font": {"size": 13}},
    }
    return go.Layout(
        font={"family": FONT, "size": 13, "color": palette.ink},
        paper_bgcolor=palette.paper,
        plot_bgcolor=palette.paper,
        margin={"l": 56, "r": 16, "t": 40, "b": 48},
        xaxis=axis,
        yaxis=axis,
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "maxheight": 1,  # never a scroll bar
            "font": {"size": 12, "color": palette.muted},
        },
        hoverlabel={
            "align": "left",
            "bgcolor": palette.paper,
            "bordercolor": palette.muted,
            "font": {"family": FONT, "size": 12, "color": palette.ink},
        },
        hovermode="closest",
        dragmode="zoom",
    )


def say(figure: go.Figure, words: str, theme: Theme) -> None:
    """Words in the middle of an empty plot, in place of axes that would measure nothing."""
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(
        text=words,
        xref="paper",
        yref="paper",
        x=0.5,
        y=0.5,
        showarrow=False,
        font={"size": 14, "color": PALETTES[theme].muted},
    )


def translucent(color: str, alpha: float) -> str:
    """`#rrggbb` as rgba()."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {alpha})"
