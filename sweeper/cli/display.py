"""A study as it runs: a live picture in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeper.cli.check import format_seconds
from sweeper.core.records import RunStatus
from sweeper.report.metrics import METRICS, format_metric
from sweeper.store.queries import TrialRow
from sweeper.study.launch import LaunchState
from sweeper.study.spec import StudySpec


class Display(Protocol):
    """Shows the states of a launch, within a `with` block."""

    def show(self, state: LaunchState) -> None:
        """The study as it is now."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...


def make_display(spec: StudySpec) -> Display:
    """What suits standard output."""
    return _Picture(spec) if sys.stdout.isatty() else _Lines(spec)


class _Lines:
    """One line a finished trial."""

    def __init__(self, spec: StudySpec) -> None:
        self._spec = spec
        self._told: set[int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None

    def show(self, state: LaunchState) -> None:
        unfinished = state.waiting | {run.number for run in state.running}
        ended = {
            t.number: t
            for t in state.trials
            if RunStatus(t.status).is_final and t.number not in unfinished
        }
        if self._told is None:  # what an earlier launch finished is not news
            self._told = set(ended)
            if ended:
                print(f"{state.name}: {len(ended)} trials are there already", flush=True)
        for number in sorted(set(ended) - self._told):
            self._told.add(number)
            total = "" if state.target_trials is None else f"/{state.target_trials}"
            left = "" if state.seconds_left is None else f"  {_left(state.seconds_left)}"
            print(f"trial {number}{total}  {_outcome(ended[number], self._spec)}{left}", flush=True)


class _Picture:
    """Bar, running trials and best so far, redrawn in place."""

    def __init__(self, spec: StudySpec) -> None:
        self._spec = spec
        self._live = Live(console=Console(), refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, state: LaunchState) -> None:
        self._live.update(
            Group(self._head(state), self._bar(state), self._running(state), self._best(state))
        )

    def _head(self, state: LaunchState) -> Text:
        done = sum(t.status == RunStatus.COMPLETED for t in state.trials)
        failed = sum(
            RunStatus(t.status).is_final and t.status != RunStatus.COMPLETED for t in state.trials
        )
        text = Text.assemble((state.name, "bold"), f"  trials {done}")
        text.append("" if state.target_trials is None else f" / {state.target_trials}")
        text.append(f"  running {len(state.running)}")
        if failed:
            text.append(f"  failed {failed}", style="red")
        if state.stopping:
            text.append("  stopping: Ctrl-C again ends it at once", style="yellow")
        elif state.seconds_left is not None:
            text.append(f"  {_left(state.seconds_left)}")
        return text

    def _bar(self, state: LaunchState) -> ProgressBar | Text:
        if not state.target_trials:
            return Text()
        done = sum(RunStatus(t.status).is_final for t in state.trials)
        part = sum(run.latest.progress for run in state.running if run.latest)
        return ProgressBar(total=state.target_trials, completed=done + part, width=60)

    def _running(self, state: LaunchState) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("trial", "progress", "return", "steps/s", "configuration"):
            table.add_column(name, justify="left" if name == "configuration" else "right")
        params = {t.number: t.params for t in state.trials}
        for run in state.running:
            latest = run.latest
            searched = ", ".join(
                f"{path.rsplit('.', 1)[-1]} {_short(value)}"
                for path, value in params.get(run.number, {}).items()
            )
            table.add_row(
                str(run.number),
                "starting" if latest is None else f"{latest.progress:.0%}",
                "-" if latest is None else format_metric("training_return", latest.training_return),
                "-" if latest is None else f"{latest.steps_per_second:,.0f}",
                Text(searched, overflow="ellipsis", no_wrap=True),
            )
        return table

    def _best(self, state: LaunchState) -> Text:
        best = best_trial(state.trials, self._spec)
        if best is None:
            return Text("best so far: none yet", style="dim")
        return Text(f"best so far: trial {best.number}  {_outcome(best, self._spec)}")


def best_trial(trials: tuple[TrialRow, ...], spec: StudySpec) -> TrialRow | None:
    """The feasible trial that is best by the first objective, then by the others."""
    signs = [1.0 if d == "maximize" else -1.0 for d in spec.objectives.values()]

    def score(trial: TrialRow) -> list[float]:
        return [
            sign * (getattr(trial, metric) if getattr(trial, metric) is not None else -sign * 1e300)
            for metric, sign in zip(spec.objectives, signs, strict=True)
        ]

    return max((t for t in trials if t.feasible), key=score, default=None)


def _outcome(trial: TrialRow, spec: StudySpec) -> str:
    if trial.status != RunStatus.COMPLETED:
        return f"{trial.status}  {trial.reason or ''}".rstrip()
    figures = "  ".join(
        f"{METRICS[metric].label} {format_metric(metric, getattr(trial, metric))}"
        for metric in spec.objectives
    )
    return figures if trial.feasible else f"{figures}  (infeasible)"


def _left(seconds: float) -> str:
    return f"about {format_seconds(seconds)} left"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
