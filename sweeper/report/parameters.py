"""The searched parameters: which of them mattered, and how trials run through all of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from sweeper.report.metrics import (
    METRICS,
    format_metric,
    format_param,
    short_names,
    value_of,
)
from sweeper.report.theme import PALETTES, Theme, layout, say
from sweeper.store.rows import ImportanceRow, ParamValue, StudyRow, TrialRow

MAX_LINES = 600
_LOG_SPAN = 20.0
"""A positive parameter whose greatest value is so many times its least has a log axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One upright axis: a searched parameter or an objective."""

    key: str
    """What the table's filter calls it."""
    title: str
    ticks: tuple[tuple[float, str], ...]
    """(position from 0 to 1, label)."""
    low: float | None
    """Values at positions 0 and 1; None where the axis has categories."""
    high: float | None
    log: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One trial."""

    number: int
    front: bool
    chosen: bool
    """Whether the table shows it, too."""
    positions: tuple[float | None, ...]
    """[axes] from 0 to 1; None where it has no value."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """Parallel coordinates (Inselberg 1985): axes side by side, a line through them a trial."""

    axes: tuple[Axis, ...]
    lines: tuple[Line, ...]
    """Drawn in this order: the front comes last, on top."""
    n_trials: int
    """How many there are; of more than MAX_LINES not all are among the lines."""


def parallel(
    study: StudyRow,
    trials: Sequence[TrialRow],
    *,
    front: Collection[int],
    chosen: Collection[int],
) -> Parallel:
    """Every COMPLETED trial through the searched parameters and the objectives.

    front, chosen: numbers of trials. Parameters with a single value are left out.
    """
    done = [trial for trial in trials if trial.status == "COMPLETED"]
    values: dict[str, list[ParamValue]] = {}
    for path in dict.fromkeys(path for trial in done for path in trial.params):
        values[path] = [trial.params.get(path) for trial in done]
    values = {path: column for path, column in values.items() if len(set(column)) > 1}
    names = short_names(list(values))
    columns = [_axis(path, names[path], column) for path, column in values.items()]
    for metric in study.objectives:
        numbers: list[ParamValue] = [value_of(trial, metric) for trial in done]
        columns.append(_axis(metric, METRICS[metric].title, numbers))
    lines = [
        Line(
            number=trial.number,
            front=trial.number in front,
            chosen=trial.number in chosen,
            positions=tuple(positions[i] for _, positions in columns),
        )
        for i, trial in enumerate(done)
    ]
    best = [line for line in lines if line.front]
    rest = [line for line in lines if not line.front]
    rest.sort(key=lambda line: line.chosen)
    if len(rest) > MAX_LINES:
        rest = rest[:: -(-len(rest) // MAX_LINES)]
    return Parallel(tuple(axis for axis, _ in columns), (*rest, *best), len(done))


def importance_figure(rows: Sequence[ImportanceRow], *, theme: Theme = "light") -> go.Figure:
    """A bar a parameter and objective; the most important parameter on top."""
    palette = PALETTES[theme]
    figure = go.Figure(layout=layout(theme))
    paths = list(dict.fromkeys(row.path for row in rows))
    names = short_names(paths)
    total: dict[str, float] = dict.fromkeys(paths, 0.0)
    for row in rows:
        total[row.path] += row.importance
    order = sorted(paths, key=lambda path: total[path])
    by_objective: dict[str, dict[str, float]] = {}
    for row in rows:
        by_objective.setdefault(row.objective, {})[row.path] = row.importance
    patterns = ("", "/", ".")
    for i, (objective, found) in enumerate(by_objective.items()):
        metric = METRICS.get(objective)
        figure.add_trace(
            go.Bar(
                y=[names[path] for path in order],
                x=[found.get(path, 0.0) for path in order],
                orientation="h",
                name=metric.title if metric else objective,
                marker={
                    "color": palette.phases[(0, 3, 5)[i % 3]],
                    "pattern": {"shape": patterns[i % 3], "size": 5, "solidity": 0.2},
                },
                hovertemplate="%{y}: %{x:.0%}<extra>%{fullData.name}</extra>",
            )
        )
    figure.update_xaxes(title_text="share of the variance explained", tickformat=".0%")
    figure.update_layout(barmode="group", legend={"traceorder": "normal"})
    if not rows:
        say(figure, "Not known yet: it takes ten feasible trials.", theme)
    return figure


def _axis(key: str, title: str, column: Sequence[ParamValue]) -> tuple[Axis, list[float | None]]:
    """The axis, and the position of each value on it."""
    known = [value for value in column if value is not None]
    numbers = [v for v in known if isinstance(v, int | float) and not isinstance(v, bool)]
    if known and len(numbers) == len(known):
        return _number_axis(key, title, [None if v is None else float(v) for v in column])
    labels = sorted({_label(value) for value in column})
    place = {label: (i + 0.5) / len(labels) for i, label in enumerate(labels)}
    axis = Axis(key, title, tuple((place[label], label) for label in labels), None, None, log=False)
    return axis, [place[_label(value)] for value in column]


def _number_axis(
    key: str, title: str, column: Sequence[float | None]
) -> tuple[Axis, list[float | None]]:
    known = [value for value in column if value is not None]
    low, high = min(known), max(known)
    log = low > 0 and high / low >= _LOG_SPAN
    turn = math.log if log else float

    def position(value: float) -> float:
        return (turn(value) - turn(low)) / ((turn(high) - turn(low)) or 1.0)

    distinct = sorted(set(known))
    marks = distinct if len(distinct) <= 6 else _marks(low, high, log=log)
    if all(value.is_integer() for value in known):  # 8, not 7.94
        marks = sorted({min(distinct, key=lambda v: abs(position(v) - position(m))) for m in marks})
    text = (lambda v: format_metric(key, v)) if key in METRICS else format_param
    ticks = tuple((position(value), text(_whole(value))) for value in marks)
    axis = Axis(key, title, ticks, low, high, log=log)
    return axis, [None if value is None else position(value) for value in column]


def _marks(low: float, high: float, *, log: bool) -> list[float]:
    if log:
        return [
            math.exp(math.log(low) + (math.log(high) - math.log(low)) * i / 4) for i in range(5)
        ]
    return [low + (high - low) * i / 4 for i in range(5)]


def _whole(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _label(value: ParamValue) -> str:
    return "–" if value is None else format_param(value)
