"""A study as it runs: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sweeper.cli.picture import picture
from sweeper.cli.progress import away, behind, ended_trials, outcome, summary, time_left
from sweeper.study.progress import LaunchState
from sweeper.study.spec import StudySpec


class Display(Protocol):
    """Shows the states of a launch, within a `with` block that begins before the first."""

    def show(self, state: LaunchState) -> None:
        """The study as it is now."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...


def make_display(spec: StudySpec) -> Display:
    """What suits standard output."""
    return LiveDisplay(spec, Console()) if sys.stdout.isatty() else LineDisplay(spec)


class LineDisplay:
    """One line a trial that has ended."""

    def __init__(self, spec: StudySpec) -> None:
        self._spec = spec
        self._told: set[int] | None = None
        self._waiting: set[str] = set()

    def __enter__(self) -> Self:
        print(summary(self._spec), flush=True)
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None

    def show(self, state: LaunchState) -> None:
        """See Display."""
        ended = ended_trials(state)
        if self._told is None:  # what an earlier launch finished is not news
            self._told = {trial.number for trial in ended}
            if ended:
                print(f"continues: {len(ended)} trials are there already", flush=True)
        waiting = {run.waiting_for for run in state.running if run.waiting_for}
        if state.behind is not None and not state.running:
            waiting.add(behind(state.behind))
        if state.away is not None:
            waiting.add(away(state.away))
        for reason in waiting - self._waiting:
            print(f"waiting: {reason}", flush=True)
        self._waiting = waiting
        target = "" if state.target_trials is None else f"/{state.target_trials}"
        for trial in ended:
            if trial.number not in self._told:
                self._told.add(trial.number)
                done = f"[{len(self._told)}{target}]"
                words = f"{done} trial {trial.number}: {outcome(trial, self._spec)}"
                left = time_left(state)
                print(f"{words}  ({left})" if left else words, flush=True)


class LiveDisplay:
    """The picture, redrawn in place; it leaves nothing behind."""

    def __init__(self, spec: StudySpec, console: Console) -> None:
        self._spec = spec
        self._console = console
        self._live = Live(
            Text(f"{summary(spec)}\nstarting Ray"),
            console=console,
            refresh_per_second=4,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, state: LaunchState) -> None:
        """See Display."""
        size = self._console.size
        lines = picture(state, self._spec, width=size.width, height=size.height - 1)
        self._live.update(Text("\n").join(lines))
