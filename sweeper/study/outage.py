"""How a launcher outlasts an outage of its database: stopped, locked, full or read-only.

Running trials go on and what they say is spooled; nothing is begun. The lease cannot be renewed
meanwhile and may run out. So, before anything else is written, the launcher renews it: if another
has taken the study over by then, it stands down, and leaves its spool to the next launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sweeper.core.clock import Clock
from sweeper.core.errors import DatabaseAwayError
from sweeper.store.store import Store
from sweeper.study.claim import LEASE_SECONDS, Claim
from sweeper.study.recorder import LiveRun, Recorder

RETRY_SECONDS = 2.0
BUSY_SECONDS = 1.0
"""How long a look whether SQLite is free again may hold the launcher up."""
EVENT = "outage"


class Outage:
    """Keeps the lease of a claimed study, and sees the database go and come back."""

    def __init__(self, recorder: Recorder, store: Store, claim: Claim, clock: Clock) -> None:
        self._recorder = recorder
        self._store = store
        self._claim = claim
        self._clock = clock
        self._renewed_at = self._tried_at = clock.now()
        self._since: float | None = None

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """What needs the database: left half-way when that goes away, to be done again."""
        try:
            yield
        except DatabaseAwayError as error:
            self._recorder.away = str(error)

    def is_over(self, lives: Iterable[LiveRun]) -> bool:
        """Whether an outage ends with this call, which wrote what had waited for that. Call it
        often: it renews the lease, too. Raises LeaseLostError."""
        now = self._clock.now()
        if self._recorder.away is None:
            if now - self._renewed_at >= LEASE_SECONDS / 3:
                with self.noticed():
                    self._renew(LEASE_SECONDS)
            return False
        if self._since is None:
            self._since = now
        if now - self._tried_at < RETRY_SECONDS:
            return False
        self._tried_at, reason = now, self._recorder.away
        try:
            self._renew(BUSY_SECONDS)
            count = self._recorder.replay(lives)
            seconds, self._since = self._clock.now() - self._since, None
            self._store.add_event(
                EVENT,
                study_id=self._claim.study.study_id,
                detail=f"for {seconds:.0f} s: {reason}; {count} entries waited in the spool",
            )
        except DatabaseAwayError as error:
            self._recorder.away = str(error)
            return False
        return True

    def _renew(self, busy_seconds: float) -> None:
        self._store.renew_lease(
            self._claim.study.study_id,
            launcher_id=self._claim.launcher_id,
            seconds=LEASE_SECONDS,
            busy_seconds=busy_seconds,
        )
        self._renewed_at = self._clock.now()
