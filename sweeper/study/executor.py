"""`Executor`: runs trials somewhere and carries what they yield to the launcher."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from sweeper.core.clock import Clock, StopSignal
from sweeper.core.errors import InputError, SweeperError
from sweeper.core.records import PhaseSeconds, RunResult, RunStatus, TrialEvent
from sweeper.study.resources import Need, Resources, lacking
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec


class RunEvent(NamedTuple):
    """Something that a run yielded."""

    run_id: int
    event: TrialEvent


class Notice(NamedTuple):
    """Something that happened to a node, of which the study keeps an event."""

    kind: str
    """node_refused | node_lost | quarantined."""
    detail: str
    """For people: which node, and why."""


class LabelsError(InputError):
    """No node has the labels that are asked for."""


class ClusterLostError(SweeperError):
    """No node is left that could run what is to be run."""


class Executor(Protocol):
    """Where trials run. Every submitted run ends in exactly one RunResult event."""

    @property
    def total_cores(self) -> int:
        """Cores that trials can be given altogether."""
        ...

    def fits(self, spec: TrialSpec) -> bool:
        """Whether what a trial of `spec` needs is free now."""
        ...

    def lacking(self, spec: TrialSpec) -> Resources | None:
        """What of that no node has, even with nothing else on it; None where one has it all."""
        ...

    def submit(self, run_id: int, spec: TrialSpec, *, untrained: bool = False) -> None:
        """Start a run; call only if it fits. `untrained`: see `run_trial`."""
        ...

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        """What has happened, in order within a run; waits up to `timeout_seconds` for the
        first. A run whose process dies yields a RunResult with status LOST or OOM."""
        ...

    def notices(self) -> list[Notice]:
        """What happened to nodes since this was last asked."""
        ...

    def stop(self) -> None:
        """Ask every running trial to end at its next deadline check, as INTERRUPTED."""
        ...

    def prune(self, run_id: int, reason: str) -> None:
        """Ask one run to end at its next deadline check, as PRUNED for this reason. Nothing
        happens if it has ended meanwhile."""
        ...

    def close(self) -> None:
        """End all runs and processes now; safe to call twice."""
        ...


class InlineExecutor:
    """Runs one trial at a time in this process, advanced by `events`: for tests."""

    total_cores = 1

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._stopping = False
        self._stop = StopSignal()
        self._running: tuple[int, Iterator[TrialEvent]] | None = None

    def fits(self, spec: TrialSpec) -> bool:
        """See Executor."""
        return self._running is None and self.lacking(spec) is None

    def lacking(self, spec: TrialSpec) -> Resources | None:
        """See Executor: one core, and what devices this process sees."""
        return lacking(Need(spec.parallelism.cores), [Resources(self.total_cores)])

    def submit(self, run_id: int, spec: TrialSpec, *, untrained: bool = False) -> None:
        """See Executor."""
        self._stop = StopSignal(requested=self._stopping)
        trial = run_trial(spec, clock=self._clock, stop=self._stop, untrained=untrained)
        self._running = run_id, trial

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        """See Executor: the next event of the one run."""
        del timeout_seconds
        if self._running is None:
            return []
        run_id, trial = self._running
        event = next(trial)
        if isinstance(event, RunResult):
            deque(trial, maxlen=0)  # let the generator clean up after itself
            self._running = None
        return [RunEvent(run_id, event)]

    def notices(self) -> list[Notice]:
        """See Executor: nothing happens to this process."""
        return []

    def stop(self) -> None:
        """See Executor."""
        self._stopping = self._stop.requested = True

    def prune(self, run_id: int, reason: str) -> None:
        """See Executor."""
        if self._running is not None and self._running[0] == run_id:
            self._stop.requested, self._stop.pruned = True, reason

    def close(self) -> None:
        """See Executor."""
        if self._running is not None:
            self._running[1].close()  # type: ignore[attr-defined]  # a generator
            self._running = None


def lost_result(status: RunStatus, reason: str) -> RunResult:
    """The result of a run that could not report one itself."""
    return RunResult(
        status=status,
        reason=reason,
        setup_seconds=0.0,
        elapsed_seconds=0.0,
        overshoot_seconds=0.0,
        env_steps=0,
        episodes=0,
        updates=0,
        steps_per_second=None,
        final_return=None,
        final_return_stochastic=None,
        training_return=None,
        seconds_to_threshold=None,
        return_area=None,
        phases=PhaseSeconds(),
        evaluate_seconds=0.0,
        cpu_seconds=None,
        core_seconds=0.0,
        cpu_utilization=None,
        peak_rss_bytes=None,
        involuntary_switches=None,
    )
