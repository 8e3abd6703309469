"""Which runs are made again because others took their cores' time."""

from __future__ import annotations

from sweeper.core.records import RunResult, RunStatus
from sweeper.study.recorder import LiveRun

MOST_IN_VAIN = 3
"""After so many in a row that were contended again the machine itself is busy: measuring
everything twice would take twice as long and tell nothing more."""


class Remeasurement:
    """Each contended run is made again once, until that has been in vain too often."""

    def __init__(self) -> None:
        self._made: set[tuple[int, int]] = set()
        self._in_vain = 0

    def reason(self, live: LiveRun, result: RunResult) -> str | None:
        """Why the run that has just ended is to be made again; None if it is not.

        Under a budget of env steps the speed decides nothing, and nothing is made again.
        """
        run = (live.trial_id, live.spec.seed)
        if run in self._made:
            self._in_vain = self._in_vain + 1 if result.contended else 0
            return None
        if (
            result.status is not RunStatus.COMPLETED
            or not result.contended
            or live.spec.budget.seconds is None
            or self._in_vain >= MOST_IN_VAIN
        ):
            return None
        self._made.add(run)
        return f"others took {result.foreign_cpu_share:.1%} of its cores' time"
