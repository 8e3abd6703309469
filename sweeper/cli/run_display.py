"""One trial as it runs, on a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sweeper.core.records import (
    Measurement,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
    WaitingForCores,
)
from sweeper.report.metrics import format_metric
from sweeper.trial.diagnose import Diagnosis
from sweeper.trial.spec import TrialSpec

LINES = 20
"""About so many lines a budget."""


class RunDisplay:
    """What a person reads: how training goes, and what came of it."""

    def __init__(self, spec: TrialSpec, *, saved: Path | None = None, spent_steps: int = 0) -> None:
        """`saved` is where a checkpoint will be, `spent_steps` what was trained before."""
        self._spec = spec
        self._saved = saved
        self._spent_steps = spent_steps
        self._console = Console(highlight=False, markup=False)
        self._shown_at = 0.0

    def show(self, event: TrialEvent, diagnosis: Diagnosis | None) -> None:
        """Print what is worth a line."""
        match event:
            case WaitingForCores():
                self._console.print(f"waiting: {event.reason} (Ctrl-C gives up)", style="yellow")
            case TrainingStarted():
                self._start(event)
            case Measurement():
                if event.progress >= self._shown_at or event.progress >= 1.0:
                    self._shown_at = event.progress + 1.0 / LINES
                    self._measurement(event)
            case RunResult():
                self._result(event)
                if diagnosis is not None:
                    self._console.print(
                        f"bottleneck: {diagnosis.bottleneck}; try {diagnosis.advice}"
                    )

    def _start(self, event: TrainingStarted) -> None:
        parallelism = self._spec.parallelism
        n = event.n_workers
        workers = f"{n} worker{'s' if n > 1 else ''}" if n else "this process"
        self._console.print(
            f"{self._spec.env.name}: {self._spec.algorithm.kind} for {self._spec.budget}, "
            f"{parallelism.n_envs} envs in {workers}, set up in {event.setup_seconds:.1f} s"
        )
        if self._spent_steps:
            self._console.print(f"going on after {self._spent_steps:,d} env steps")
        self._console.print(
            f"{'seconds':>9} {'env steps':>12} {'steps/s':>9} {'return':>9} {'KL':>8}", style="dim"
        )

    def _measurement(self, event: Measurement) -> None:
        kl = "" if event.approx_kl is None else f"{event.approx_kl:.4f}"
        self._console.print(
            f"{event.elapsed_seconds:9.1f} {event.env_steps:12,d} "
            f"{event.steps_per_second:9,.0f} "
            f"{format_metric('training_return', event.training_return):>9} {kl:>8}"
        )

    def _result(self, result: RunResult) -> None:
        if result.status is not RunStatus.COMPLETED:
            self._console.print(f"{result.status}: {result.reason}", style="red")
        if result.final_return is not None:
            evaluation = self._spec.evaluation
            self._console.print(
                f"final return {format_metric('final_return', result.final_return)} "
                f"({evaluation.policy}, {evaluation.episodes} episodes), training speed "
                f"{format_metric('steps_per_second', result.steps_per_second)} env steps/s",
                style="bold",
            )
        if self._saved is not None and result.status in (
            RunStatus.COMPLETED,
            RunStatus.INTERRUPTED,
        ):
            self._console.print(f"saved: {self._saved}; play it: sweeper evaluate {self._saved}")
        if result.elapsed_seconds:
            phases = result.phases
            shares = {
                "environments": phases.env_wait,
                "inference": phases.inference,
                "update": phases.update,
                "normalize": phases.normalize,
                "rest": phases.bookkeeping + phases.other,
            }
            self._console.print(
                "time: "
                + ", ".join(f"{k} {v / result.elapsed_seconds:.0%}" for k, v in shares.items()),
                style="dim",
            )
        if result.contended:
            self._console.print(
                f"contended: others took {result.foreign_cpu_share:.1%} of its cores' time, so "
                "its speed is not to be trusted",
                style="yellow",
            )
