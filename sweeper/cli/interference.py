"""`sweeper doctor --interference`: how much trials disturb each other here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sweeper.cli.machine import Finding
from sweeper.report.metrics import format_seconds
from sweeper.study.interference import WARM_UP_SECONDS, Crowd, crowd_sizes, measure_crowds
from sweeper.study.ray_executor import RayExecutor
from sweeper.trial.contention import CONTENDED_SHARE

FAIR = 0.95
"""Of the speed alone; a trial that keeps so much of it is compared with any other."""
STARTING_SECONDS = 5.0
"""For Ray and the imports of its workers, roughly."""


@dataclass(frozen=True, slots=True)
class Interference:
    """Crowds in order of their size; the first is a trial alone."""

    crowds: tuple[Crowd, ...]

    @property
    def most_slots(self) -> int:
        """The largest crowd up to which all were fair."""
        most = 1
        for crowd in self.crowds[1:]:
            if crowd.ratio(self.crowds[0]) < FAIR:
                break
            most = crowd.slots
        return most

    def findings(self) -> Iterator[Finding]:
        """A line of the doctor's for each crowd."""
        alone, *others = self.crowds
        speed = f"{alone.steps_per_second[0]:,.0f} env steps/s"
        disturbed = [c for c in self.crowds if (c.foreign_cpu_share or 0.0) > CONTENDED_SHARE]
        if disturbed:
            share = max(c.foreign_cpu_share or 0.0 for c in disturbed)
            yield Finding(
                "interference",
                "note",
                f"others took up to {share:.0%} of the cores meanwhile: no ratio is to be trusted",
                "end them, and measure again",
            )
        if not others:
            yield Finding("interference", "ok", f"a trial alone {speed}; there is one slot")
        for crowd in others:
            ratio = crowd.ratio(alone)
            words = f"{crowd.slots} at once: each {ratio:.0%} of the {speed} of one alone"
            if ratio >= FAIR:
                yield Finding("interference", "ok", words)
            else:
                yield Finding("interference", "note", words, self._remedy())

    def record(self) -> dict[str, Any]:
        """The same for programs."""
        alone, *others = self.crowds
        return {
            "alone_steps_per_second": alone.steps_per_second[0],
            "fair_ratio": FAIR,
            "most_fair_slots": self.most_slots,
            "slots": [
                {
                    "slots": crowd.slots,
                    "steps_per_second": list(crowd.steps_per_second),
                    "ratio": crowd.ratio(alone),
                    "foreign_cpu_share": crowd.foreign_cpu_share,
                }
                for crowd in others
            ],
        }

    def _remedy(self) -> str:
        return (
            f"`concurrency: {self.most_slots}` in the study file, or compare speeds of trials that "
            "ran at the same concurrency only: they share caches, memory and clock"
        )


def measure_interference(seconds: float) -> Interference:
    """Measured by the very workers that run a study's trials; what happens is told on standard
    error. Raises SweeperError when a trial fails."""
    executor = RayExecutor("local")
    try:
        sizes = crowd_sizes(executor.total_cores)
        _tell(
            f"{len(sizes)} settings of {seconds:g} s: about "
            + format_seconds(len(sizes) * seconds + WARM_UP_SECONDS + STARTING_SECONDS)
        )
        return Interference(tuple(measure_crowds(executor, sizes, seconds=seconds, tell=_tell)))
    finally:
        executor.close()


def _tell(word: str) -> None:
    print(f"{'':8}interference: {word}", file=sys.stderr, flush=True)
