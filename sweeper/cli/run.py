"""`sweeper run`: one trial, in this process."""

from __future__ import annotations

import signal
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from sweeper.cli.printing import print_json_line
from sweeper.core.clock import StopSignal
from sweeper.core.records import (
    Evaluation,
    Measurement,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
)
from sweeper.envs.make import describe
from sweeper.study.spec import load_trial
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec

EVENTS = {
    TrainingStarted: "started",
    Measurement: "measurement",
    Evaluation: "evaluation",
    RunResult: "result",
}
EXIT_CODES = {RunStatus.COMPLETED: 0, RunStatus.INTERRUPTED: 130}


def run_once(file: Path, *, overrides: list[str]) -> int:
    """Run the trial of `file` and print what it yields; returns the exit code.

    Ctrl-C ends the training gently; a second one ends the process.
    """
    spec = load_trial(file, overrides=overrides)
    describe(spec.env)
    stop = StopSignal()

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    display = _Display(spec) if sys.stdout.isatty() else None
    code = 1
    for event in run_trial(spec, stop=stop):
        if display is None:
            print_json_line({"event": EVENTS[type(event)], **asdict(event)})
        else:
            display.show(event)
        if isinstance(event, RunResult):
            code = EXIT_CODES.get(event.status, 1)
    return code


class _Display:
    """What a person reads: a line about twenty times in a budget, and the result."""

    LINES = 20

    def __init__(self, spec: TrialSpec) -> None:
        self._spec = spec
        self._console = Console(highlight=False)
        self._shown_at = 0.0

    def show(self, event: TrialEvent) -> None:
        match event:
            case TrainingStarted():
                workers = f"{event.n_workers} workers" if event.n_workers else "no workers"
                self._console.print(
                    f"[bold]{self._spec.env.name}[/bold]  {self._spec.algorithm.kind}, "
                    f"{self._spec.parallelism.n_envs} envs, {workers}, "
                    f"budget {self._spec.budget}  (set up in {event.setup_seconds:.1f} s)"
                )
                self._console.print("[dim]  seconds   env steps   steps/s   return   KL[/dim]")
            case Measurement():
                if event.progress < self._shown_at:
                    return
                self._shown_at = event.progress + 1.0 / self.LINES
                kl = "" if event.approx_kl is None else f"{event.approx_kl:.4f}"
                mean = "-" if event.training_return is None else f"{event.training_return:.1f}"
                self._console.print(
                    f"{event.elapsed_seconds:9.1f} {event.env_steps:11,d} "
                    f"{event.steps_per_second:9,.0f} {mean:>8}   {kl}"
                )
            case RunResult():
                self._result(event)

    def _result(self, result: RunResult) -> None:
        if result.status is not RunStatus.COMPLETED:
            self._console.print(f"[red]{result.status}[/red]  {result.reason}", markup=True)
        if result.final_return is not None:
            self._console.print(
                f"final return [bold]{result.final_return:.1f}[/bold] over "
                f"{self._spec.evaluation.episodes} episodes "
                f"({self._spec.evaluation.policy}), "
                f"[bold]{result.steps_per_second:,.0f}[/bold] steps/s"
            )
        shares = result.phases
        total = result.elapsed_seconds or 1.0
        self._console.print(
            "[dim]where the time went: "
            + ", ".join(
                f"{name} {seconds / total:.0%}"
                for name, seconds in (
                    ("environments", shares.env_wait),
                    ("inference", shares.inference),
                    ("update", shares.update),
                    ("normalize", shares.normalize),
                    ("rest", shares.bookkeeping + shares.other),
                )
            )
            + "[/dim]"
        )
