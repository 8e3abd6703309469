"""The trials table: which rows, in which order. Pure; the address holds its whole state.

A filter is words apart by spaces, all of which must hold: `adam` is looked for in the status,
origin and parameters; `n_envs=8`, `final_return>400` compare a column.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sweeper.report.metrics import METRICS, format_metric, format_param, short_names, value_of
from sweeper.store.rows import ParamValue, StudyRow, TrialRow

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


FIELDS = {
    column.key: column
    for column in (
        Column("bottleneck", "bottleneck", numeric=False),
        Column("n_runs", "runs"),
        Column("n_test_runs", "test runs"),
        Column("test_final_return", "final return, test seeds"),
        Column("sampler", "sampler", numeric=False),
        Column("algorithm", "algorithm", numeric=False),
        Column("optimizer", "optimizer", numeric=False),
        Column("schedule", "schedule", numeric=False),
        Column("learning_rate", "learning rate"),
        Column("vec_env", "vec_env", numeric=False),
        *(
            Column(name, name)
            for name in (
                "n_envs",
                "envs_per_worker",
                "n_workers",
                "cores",
                "torch_threads",
                "n_steps",
                "n_minibatches",
                "n_epochs",
                "batch_size",
                "minibatch_size",
                "gamma",
                "gae_lambda",
                "clip_range",
                "entropy_coef",
            )
        ),
    )
}
"""Columns of the database that may be shown, beside metrics and searched parameters."""


@dataclass(frozen=True, slots=True)
class TrialTable:
    """One page of the table."""

    columns: tuple[Column, ...]
    choices: tuple[Column, ...]
    """Every column that may be chosen."""
    trials: tuple[TrialRow, ...]
    n_matching: int
    page: int
    n_pages: int
    problem: str | None
    """Why the filter or sort order was not understood; then nothing is filtered by it."""


def columns_of(
    study: StudyRow, trials: Sequence[TrialRow], chosen: Collection[str] = ()
) -> tuple[Column, ...]:
    """Number and status, then the chosen columns; without any: the objectives, every searched
    parameter, the bottleneck where one is known, and the origin."""
    choices = _choices(study, trials)
    if not chosen:
        known = any(trial.bottleneck for trial in trials)
        chosen = [
            *study.objectives,
            *(c.key for c in choices if c.key not in METRICS and c.key not in FIELDS),
            *(["bottleneck"] if known else []),
        ]
    return (
        Column("number", "trial"),
        Column("status", "status", numeric=False),
        *(column for column in choices if column.key in chosen),
    )


def _choices(study: StudyRow, trials: Sequence[TrialRow]) -> tuple[Column, ...]:
    """Objectives, searched parameters, origin, other metrics, other columns."""
    sample: dict[str, ParamValue] = {}
    for trial in trials:
        for path, value in trial.params.items():
            sample.setdefault(path, value)
    names = short_names(list(sample))
    return (
        *(Column(m, METRICS[m].title, METRICS[m].unit) for m in study.objectives),
        *(
            Column(path, names[path], numeric=isinstance(value, int | float))
            for path, value in sample.items()
        ),
        Column("origin", "origin", numeric=False),
        *(
            Column(m.name, m.title, m.unit)
            for m in METRICS.values()
            if m.name not in study.objectives
        ),
        *(column for column in FIELDS.values() if column.title not in names.values()),
    )


def select(
    study: StudyRow,
    trials: Sequence[TrialRow],
    *,
    filter_text: str = "",
    box: Box | None = None,
    sort: str = "",
    page: int = 1,
    chosen: Collection[str] = (),
) -> TrialTable:
    """The rows that match, sorted by the column `sort` (`-column` descends), one page of them.

    By default the best of the first objective comes first. Missing values always come last.
    """
    choices = _choices(study, trials)
    matching, problem = matching_trials(study, trials, filter_text=filter_text, box=box, sort=sort)
    n_pages = max(1, -(-len(matching) // PAGE_ROWS))
    page = min(page, n_pages)
    unknown = [key for key in chosen if key not in {column.key for column in choices}]
    if unknown:
        said = "; ".join(_unknown(key, {c.key: c.key for c in choices}) for key in unknown)
        problem = f"{problem}; {said}" if problem else said
    return TrialTable(
        columns=columns_of(study, trials, chosen),
        choices=choices,
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
    keys = _keys(_choices(study, trials))
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
    if key in ("number", "status", "origin") or key in FIELDS:
        value: ParamValue = getattr(trial, key)
        return value
    return trial.params.get(key)


def cell_text(trial: TrialRow, key: str) -> str:
    """The value of a column as the table shows it."""
    value = cell(trial, key)
    if key in METRICS:
        assert value is None or isinstance(value, int | float)
        return format_metric(key, value)
    if key == "test_final_return":
        assert value is None or isinstance(value, int | float)
        return format_metric(key, value)
    return "–" if value is None and key not in trial.params else format_param(value)


def _keys(columns: Sequence[Column]) -> Mapping[str, str]:
    """Everything that a column may be called -> its key."""
    keys = {name: name for name in (*FIELDS, *METRICS, "number", "status", "origin")}
    for column in columns:
        keys[column.title.replace(" ", "_")] = column.key
    return keys | {column.key: column.key for column in columns}


def _unknown(name: str, keys: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, keys, n=1)
    return f"there is no column {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _words(trial: TrialRow) -> str:
    feasible = "infeasible" if trial.feasible is False else "feasible"
    values = (format_param(value) for value in trial.params.values())
    said = (trial.status, trial.origin, feasible, trial.bottleneck or "", trial.reason or "")
    return " ".join((*said, *values)).lower()


def _holds(value: ParamValue, sign: str, wanted: str) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return _COMPARE[sign](value, float(wanted))
        except ValueError:
            return False
    # Terms are apart by spaces, so a space in a value is written as an underscore.
    text = format_param(value).lower().replace(" ", "_") if value is not None else ""
    same = text == wanted.lower()
    return not same if sign == "!=" else (sign == "=" and same)


def _sorted(rows: list[TrialRow], key: str, *, descending: bool) -> list[TrialRow]:
    known = [trial for trial in rows if cell(trial, key) is not None]
    missing = [trial for trial in rows if cell(trial, key) is None]

    def order(trial: TrialRow) -> tuple[bool, float, str]:
        value = cell(trial, key)
        if isinstance(value, int | float):
            return False, float(value), ""
        return True, 0.0, str(value)

    return sorted(known, key=order, reverse=descending) + missing
