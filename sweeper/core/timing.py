"""Where the time went: a stack of phases whose own seconds sum to the elapsed time."""

from __future__ import annotations

from types import TracebackType

from sweeper.core.clock import Clock


class _Phase:
    """One reusable `with` block; allocated once, entered on every step.

    Written out, not in calls of calls: in the shortest loops there are, a microsecond of this a
    step is a percent.
    """

    __slots__ = ("_timer", "seconds")

    def __init__(self, timer: PhaseTimer) -> None:
        self._timer = timer
        self.seconds = 0.0

    def __enter__(self) -> None:
        timer = self._timer
        now = timer._now()
        outer = timer._current
        outer.seconds += now - timer._mark
        timer._mark = now
        timer._outer.append(outer)
        timer._current = self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        timer = self._timer
        now = timer._now()
        self.seconds += now - timer._mark
        timer._mark = now
        timer._current = timer._outer.pop()


class PhaseTimer:
    """Charges every second to exactly one phase: the innermost that is open.

    >>> with timer("rollout"):
    ...     with timer("env_wait"):  # seconds here are not rollout's own
    ...         ...

    `own_seconds(name)` excludes nested phases, so the phases partition the time between
    `start()` and `stop()`; what no phase claimed is charged to `"other"`.
    """

    ROOT = "other"

    def __init__(self, clock: Clock) -> None:
        self._now = clock.now
        self._current = _Phase(self)
        self._phases = {self.ROOT: self._current}
        self._outer: list[_Phase] = []
        self._mark = self._now()

    def __call__(self, name: str) -> _Phase:
        """The phase called `name`, for a `with` statement."""
        phase = self._phases.get(name)
        if phase is None:
            phase = self._phases[name] = _Phase(self)
        return phase

    def start(self) -> None:
        """Forget everything (set-up, warm-up) and begin now."""
        for phase in self._phases.values():
            phase.seconds = 0.0
        self._mark = self._now()

    def stop(self) -> None:
        """Charge the time since the last change of phase; call before reading."""
        now = self._now()
        self._current.seconds += now - self._mark
        self._mark = now

    def own_seconds(self, name: str) -> float:
        """Seconds charged to `name` itself; 0 for a phase that never ran."""
        phase = self._phases.get(name)
        return 0.0 if phase is None else phase.seconds
