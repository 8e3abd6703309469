"""The picture of a running study, as lines for a window of any size."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from sweeper.cli.progress import (
    away,
    behind,
    best_trials,
    ended_trials,
    share_done,
    summary,
    time_left,
)
from sweeper.cli.table import GAP, table_lines
from sweeper.core.records import RunStatus
from sweeper.report.metrics import METRICS, format_metric, format_param, short_names, value_of
from sweeper.store.rows import ParamValue, TrialRow
from sweeper.study.progress import LaunchState
from sweeper.study.recorder import LiveRun
from sweeper.study.spec import StudySpec

BAR_COLUMNS = 30
MAX_BEST = 5


def picture(state: LaunchState, spec: StudySpec, *, width: int, height: int) -> list[Text]:
    """Counts, progress, what runs and the best so far, in at most `height` lines of `width`."""
    params = {trial.number: trial.params for trial in state.trials}
    best = best_trials(state, spec)
    best_block = _best(best, spec)
    room = (
        height - 2 - len(best_block) - 3 - (state.away is not None)
    )  # both heads, and a line that says what is left out
    shown = state.running[: max(1, room)]
    running = table_lines(
        ("trial", "progress", "return", "env steps/s", "configuration"),
        [_running(run, params.get(run.number, {})) for run in shown],
    )
    lines = [Text.assemble((spec.study, "bold"), summary(spec)[len(spec.study) :]), _bar(state)]
    if state.away is not None:
        lines.append(Text(away(state.away), "red"))
    if shown:
        lines += [Text(running[0], "dim"), *map(Text, running[2:])]
    if len(shown) < len(state.running):
        lines.append(Text(f"and {len(state.running) - len(shown)} more", "dim"))
    lines += best_block
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines[:height]


def _bar(state: LaunchState) -> Text:
    ended = ended_trials(state)
    failed = sum(t.status not in (RunStatus.COMPLETED, RunStatus.PRUNED) for t in ended)
    share = share_done(state)
    line = Text()
    if share is not None:
        full = int(share * BAR_COLUMNS)
        line.append("━" * full, "green").append("─" * (BAR_COLUMNS - full), "dim").append(GAP)
    target = "" if state.target_trials is None else f"/{state.target_trials}"
    line.append(f"done {len(ended)}{target}, ")
    if state.stopping:
        return line.append(f"stopping {len(state.running)} (Ctrl-C again: at once)", "yellow")
    line.append(f"running {len(state.running)}")
    if state.behind is not None:
        line.append(", ").append(behind(state.behind), "yellow")
    if failed:
        line.append(", ").append(f"failed {failed}", "red")
    left = time_left(state)
    return line.append(f", {left}") if left else line


def _running(run: LiveRun, params: Mapping[str, ParamValue]) -> tuple[str, ...]:
    latest = run.latest
    about = _configuration(params) if run.waiting_for is None else run.waiting_for
    return (
        f"{run.number}",
        _stage(run),
        "-" if latest is None else format_metric("training_return", latest.training_return),
        "-" if latest is None else format_metric("steps_per_second", latest.steps_per_second),
        about if run.kind == "first" else f"{run.kind}: {about}",
    )


def _stage(run: LiveRun) -> str:
    if run.latest is not None:
        return "evaluating" if run.latest.progress >= 1.0 else f"{run.latest.progress:.0%}"
    return "starting" if run.waiting_for is None else "waiting"


def _best(best: tuple[TrialRow, ...], spec: StudySpec) -> list[Text]:
    if not best:
        return [Text("best so far: none yet", "dim")]
    table = table_lines(
        ("best", *(METRICS[metric].label for metric in spec.objectives), "configuration"),
        [
            (
                f"{trial.number}",
                *(format_metric(metric, value_of(trial, metric)) for metric in spec.objectives),
                _configuration(trial.params),
            )
            for trial in best[:MAX_BEST]
        ],
    )
    lines = [Text(table[0], "dim"), *map(Text, table[2:])]
    if len(best) > MAX_BEST:
        lines.append(Text(f"and {len(best) - MAX_BEST} more on the front", "dim"))
    return lines


def _configuration(params: Mapping[str, ParamValue]) -> str:
    """What was chosen, words first: `adam` says by itself that it is the optimizer."""
    names = short_names(list(params))
    words = [value for value in params.values() if isinstance(value, str)]
    named = [
        f"{names[path]} {format_param(value)}"
        for path, value in params.items()
        if not isinstance(value, str)
    ]
    return ", ".join((*words, *named))
