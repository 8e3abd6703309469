"""The trials table: which rows, in which order. Pure; the address holds its whole state.

A filter is words apart by spaces, all of which must hold: `adam` is looked for in the status,
origin and parameters; `n_envs=8`, `final_return>400` compare a column.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sweeper.report.metrics import METRICS, format_metric, format_param, short_names, value_of
from sweeper.store.queries import ParamValue, StudyRow, TrialRow

PAGE_ROWS = 100

_TERM = re.compile(r"([\w.]+)(>=|<=|!=|=|>|<)(.+)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle brushed on the plot, in the units of its axes."""

    x: str
    y: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def holds(self, trial: TrialRow) -> bool:
        """Whether the trial's point lies in it."""
        x, y = value_of(trial, self.x), value_of(trial, self.y)
        return (
            x is not None
            and y is not None
            and self.x_range[0] <= x <= self.x_range[1]
            and self.y_range[0] <= y <= self.y_range[1]
        )


@dataclass(frozen=True, slots=True)
class Column:
    """`key` names it in filters and sort orders, `title` in the head."""

    key: str
    title: str
    unit: str = ""
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class TrialTable:
    """One page of the table."""

    columns: tuple[Column, ...]
    trials: tuple[TrialRow, ...]
    n_matching: int
    page: int
    n_pages: int
    problem: str | None
    """Why the filter or sort order was not understood; then nothing is filtered by it."""


def columns_of(study: StudyRow, trials: Sequence[TrialRow]) -> tuple[Column, ...]:
    """Number, status, objectives, every searched parameter, origin, elapsed time."""
    sample: dict[str, ParamValue] = {}
    for trial in trials:
        for path, value in trial.params.items():
            sample.setdefault(path, value)
    names = short_names(list(sample))
    return (
        Column("number", "trial"),
        Column("status", "status", numeric=False),
        *(Column(m, METRICS[m].title, METRICS[m].unit) for m in study.objectives),
        *(
            Column(path, names[path], numeric=isinstance(value, int | float))
            for path, value in sample.items()
        ),
        Column("origin", "origin", numeric=False),
    )


def select(
    study: StudyRow,
    trials: Sequence[TrialRow],
    *,
    filter_text: str = "",
    box: Box | None = None,
    sort: str = "",
    page: int = 1,
) -> TrialTable:
    """The rows that match, sorted by the column `sort` (`-column` descends), one page of them.

    By default the best of the first objective comes first. Missing values always come last.
    """
    columns = columns_of(study, trials)
    matching, problem = matching_trials(study, trials, filter_text=filter_text, box=box, sort=sort)
    n_pages = max(1, -(-len(matching) // PAGE_ROWS))
    page = min(page, n_pages)
    return TrialTable(
        columns=columns,
        trials=tuple(matching[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]),
        n_matching=len(matching),
        page=page,
        n_pages=n_pages,
        problem=problem,
    )


def matching_trials(
    study: StudyRow,
    trials: Sequence[TrialRow],
    *,
    filter_text: str = "",
    box: Box | None = None,
    sort: str = "",
) -> tuple[list[TrialRow], str | None]:
    """All rows that match, in order, and what was wrong with the filter or sort order."""
    keys = _keys(columns_of(study, trials))
    problems = []
    rows = [trial for trial in trials if box is None or box.holds(trial)]
    for term in filter_text.split():
        comparison = _TERM.fullmatch(term)
        if comparison is None:
            rows = [trial for trial in rows if term.lower() in _words(trial)]
        elif (key := keys.get(comparison[1])) is None:
            problems.append(_unknown(comparison[1], keys))
        else:
            rows = [t for t in rows if _holds(cell(t, key), comparison[2], comparison[3])]
    if not sort:
        metric, direction = next(iter(study.objectives.items()))
        sort = f"-{metric}" if direction == "maximize" else metric
    name = sort.removeprefix("-")
    if (key := keys.get(name)) is None:
        problems.append(_unknown(name, keys))
        key = "number"
    return _sorted(rows, key, descending=sort.startswith("-")), "; ".join(problems) or None


def cell(trial: TrialRow, key: str) -> ParamValue:
    """The value of a column, by its key."""
    if key in METRICS:
        return value_of(trial, key)
    if key in ("number", "status", "origin"):
        value: ParamValue = getattr(trial, key)
        return value
    return trial.params.get(key)


def cell_text(trial: TrialRow, key: str) -> str:
    """The value of a column as the table shows it."""
    value = cell(trial, key)
    if key in METRICS:
        assert value is None or isinstance(value, int | float)
        return format_metric(key, value)
    return "–" if value is None and key not in trial.params else format_param(value)


def _keys(columns: Sequence[Column]) -> Mapping[str, str]:
    """Everything that a column may be called -> its key."""
    keys = {metric: metric for metric in METRICS}
    for column in columns:
        keys[column.title.replace(" ", "_")] = column.key
    return keys | {column.key: column.key for column in columns}


def _unknown(name: str, keys: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, keys, n=1)
    return f"there is no column {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _words(trial: TrialRow) -> str:
    feasible = "infeasible" if trial.feasible is False else "feasible"
    values = (format_param(value) for value in trial.params.values())
    return " ".join((trial.status, trial.origin, feasible, *values, trial.reason or "")).lower()


def _holds(value: ParamValue, sign: str, wanted: str) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return _COMPARE[sign](value, float(wanted))
        except ValueError:
            return False
    text = format_param(value).lower() if value is not None else ""
    return (text != wanted.lower()) if sign == "!=" else (sign == "=" and text == wanted.lower())


def _sorted(rows: list[TrialRow], key: str, *, descending: bool) -> list[TrialRow]:
    known = [trial for trial in rows if cell(trial, key) is not None]
    missing = [trial for trial in rows if cell(trial, key) is None]

    def order(trial: TrialRow) -> tuple[bool, float, str]:
        value = cell(trial, key)
        if isinstance(value, int | float):
            return False, float(value), ""
        return True, 0.0, str(value)

    return sorted(known, key=order, reverse=descending) + missing
