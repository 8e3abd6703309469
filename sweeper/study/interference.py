"""How much trials that run at the same time slow each other down.

Each has cores of its own, but caches, memory bandwidth and the processor's clock are
everybody's. The same short trial is measured alone, then with 2, 4, ... and all of the
machine's slots full; a crowd's ratio is the mean speed of its trials / the speed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from sweeper.core.errors import SweeperError
from sweeper.core.records import RunResult, RunStatus, WaitingForCores
from sweeper.study.executor import Executor
from sweeper.trial.spec import TrialSpec

WARM_UP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Trials that were measured at the same time."""

    steps_per_second: tuple[float, ...]
    """Of each trial."""
    foreign_cpu_share: float | None
    """What others took of a trial's cores, in the worst case; None where it is not known."""

    @property
    def slots(self) -> int:
        """How many they were."""
        return len(self.steps_per_second)

    def ratio(self, alone: Crowd) -> float:
        """Mean speed of one of them / the speed of a trial alone."""
        return mean(self.steps_per_second) / mean(alone.steps_per_second)


def short_trial(seconds: float) -> TrialSpec:
    """The trial that is measured: on one core, its networks large enough to leave the caches."""
    return TrialSpec.model_validate(
        {
            "env": {"id": "CartPole-v1"},
            "algorithm": {
                "kind": "ppo",
                "n_steps": 128,
                "n_minibatches": 4,
                "n_epochs": 4,
                "network": {"hidden": [256, 256], "gradient": "autograd"},
            },
            "parallelism": {"n_envs": 8},
            "budget": {"seconds": seconds},
            "evaluation": {"episodes": 1, "max_seconds": 0.1},
        }
    )


def crowd_sizes(slots: int) -> list[int]:
    """1, 2, 4, ... and `slots`."""
    return [*(2**k for k in range((slots - 1).bit_length())), slots]


def measure_crowds(
    executor: Executor, sizes: Sequence[int], *, seconds: float, tell: Callable[[str], None]
) -> Iterator[Crowd]:
    """A crowd of each size, one after another, once all workers are warm.

    tell: takes a word on what happens meanwhile. Raises SweeperError for a trial that did not
    complete.
    """
    tell("starting the workers")
    _crowd(executor, max(sizes), WARM_UP_SECONDS, tell)
    for size in sizes:
        tell(f"{size} at once, {seconds:g} s" if size > 1 else f"a trial alone, {seconds:g} s")
        yield _crowd(executor, size, seconds, tell)


def _crowd(executor: Executor, size: int, seconds: float, tell: Callable[[str], None]) -> Crowd:
    spec = short_trial(seconds)
    for run_id in range(size):
        executor.submit(run_id, spec)
    results: list[RunResult] = []
    while len(results) < size:
        for _, event in executor.events(timeout_seconds=1.0):
            match event:
                case WaitingForCores():
                    tell(event.reason)
                case RunResult():
                    results.append(event)
    for result in results:
        if result.status is not RunStatus.COMPLETED:
            raise SweeperError(f"a trial ended as {result.status}: {result.reason}")
    shares = [r.foreign_cpu_share for r in results if r.foreign_cpu_share is not None]
    return Crowd(tuple(r.steps_per_second or 0.0 for r in results), max(shares, default=None))
