"""`sweeper run`: one trial, in this process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from sweeper.cli.printing import json_line
from sweeper.cli.run_display import RunDisplay
from sweeper.core.clock import StopSignal
from sweeper.core.records import (
    Evaluation,
    Measurement,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
    WaitingForCores,
)
from sweeper.trial.checkpoint import Checkpoint
from sweeper.trial.diagnose import Diagnosis, diagnose
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec
from sweeper.trial.watchdog import Watchdog

EVENTS = {
    WaitingForCores: "waiting",
    TrainingStarted: "started",
    Measurement: "measurement",
    Evaluation: "evaluation",
    RunResult: "result",
}
Show = Callable[[TrialEvent, Diagnosis | None], None]
"""Shows an event, and with the last one the diagnosis of the run."""
EXIT_CODES = {RunStatus.COMPLETED: 0, RunStatus.INTERRUPTED: 130}


def run_once(
    spec: TrialSpec, *, resume: Checkpoint | None = None, checkpoint: Path | None = None
) -> int:
    """Run a trial and print what it yields; returns the exit code. `resume` is where to begin,
    `checkpoint` where to save what was trained.

    Ctrl-C ends the training gently; a second one ends the process. So does the watchdog, with
    a line on standard error, if the trial outlives its limits.
    """
    if sys.stdout.isatty():
        display = RunDisplay(spec, saved=checkpoint, spent_steps=resume.env_steps if resume else 0)
        return _run(spec, display.show, resume, checkpoint)
    with _records() as write:
        return _run(spec, write, resume, checkpoint)


def _run(spec: TrialSpec, show: Show, resume: Checkpoint | None, checkpoint: Path | None) -> int:
    code, curve = 1, []
    watchdog = Watchdog(own_group=False)
    try:
        with _interrupts() as stop:
            events = run_trial(
                spec, stop=stop, watchdog=watchdog, resume=resume, checkpoint=checkpoint
            )
            for event in events:
                diagnosis = None
                if isinstance(event, Measurement):
                    curve.append(event)
                if isinstance(event, RunResult):
                    code = EXIT_CODES.get(event.status, 1)
                    diagnosis = diagnose(spec, event, curve)
                show(event, diagnosis)
    finally:
        watchdog.close()
    return code


@contextmanager
def _records() -> Iterator[Show]:
    """Writes events as JSON lines on standard output, which is theirs alone: what
    environments print meanwhile, from whatever process, goes to standard error."""
    sys.stdout.flush()
    stdout, stderr = sys.stdout.fileno(), sys.stderr.fileno()
    with os.fdopen(os.dup(stdout), "w", encoding="utf-8") as records:

        def write(event: TrialEvent, diagnosis: Diagnosis | None) -> None:
            said = {} if diagnosis is None else diagnosis._asdict()
            records.write(json_line({"event": EVENTS[type(event)], **asdict(event), **said}))
            records.flush()

        os.dup2(stderr, stdout)
        try:
            yield write
        finally:
            sys.stdout.flush()
            os.dup2(records.fileno(), stdout)


@contextmanager
def _interrupts() -> Iterator[StopSignal]:
    """Ctrl-C or SIGTERM: once is gentle, twice is at once."""
    stop = StopSignal()

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
