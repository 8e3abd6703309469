"""Where the time went: a stack of phases whose own seconds sum to the elapsed time."""

from __future__ import annotations

from types import TracebackType

from sweeper.core.clock import Clock


class _Phase:
    """One reusable `with` block; allocated once, entered on every step."""

    __slots__ = ("_name", "_timer")

    def __init__(self, timer: PhaseTimer, name: str) -> None:
        self._timer = timer
        self._name = name

    def __enter__(self) -> None:
        self._timer._enter(self._name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer._leave()


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
        self._phases: dict[str, _Phase] = {}
        self._seconds: dict[str, float] = {self.ROOT: 0.0}
        self._stack: list[str] = [self.ROOT]
        self._mark = self._now()

    def __call__(self, name: str) -> _Phase:
        """The phase called `name`, for a `with` statement."""
        phase = self._phases.get(name)
        if phase is None:
            phase = self._phases[name] = _Phase(self, name)
            self._seconds.setdefault(name, 0.0)
        return phase

    def start(self) -> None:
        """Forget everything (set-up, warm-up) and begin now."""
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        self._mark = self._now()

    def stop(self) -> None:
        """Charge the time since the last change of phase; call before reading."""
        self._charge()

    def own_seconds(self, name: str) -> float:
        """Seconds charged to `name` itself; 0 for a phase that never ran."""
        return self._seconds.get(name, 0.0)

    def _charge(self) -> None:
        now = self._now()
        self._seconds[self._stack[-1]] += now - self._mark
        self._mark = now

    def _enter(self, name: str) -> None:
        self._charge()
        self._stack.append(name)

    def _leave(self) -> None:
        self._charge()
        self._stack.pop()
