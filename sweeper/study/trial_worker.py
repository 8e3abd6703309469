"""What runs in a Ray worker: one trial after another, so that torch is imported once and not
once a trial."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from sweeper.core.clock import StopSignal
from sweeper.core.records import Evaluation, HostRecord, Measurement, TrialEvent
from sweeper.trial.host import this_host
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec
from sweeper.trial.watchdog import Watchdog

SEND_SECONDS = 1.0
"""Measurements travel together, so often: what carries them uses the cores that are measured."""


class TrialWorker:
    """Runs trials on one thread while another takes the word to stop."""

    def __init__(self, import_path: Sequence[str]) -> None:
        """import_path: the launcher's; what a study names by dotted path is found by it."""
        sys.path.extend(path for path in import_path if path not in sys.path)
        # By run, since the word may come before its run begins, or after it has ended.
        self._stops: defaultdict[int, StopSignal] = defaultdict(StopSignal)
        self._watchdog = Watchdog(own_group=True, tied_to=os.getppid())

    def run(
        self, run_id: int, spec: TrialSpec, note: str, untrained: bool
    ) -> Iterator[list[TrialEvent]]:
        """Run a trial and yield what happens in it. `note` is the watchdog's file; `untrained` as
        in `run_trial`."""
        self._watchdog.note = Path(note)
        try:
            unsent: list[TrialEvent] = []
            quiet_until = 0.0  # the first measurement shows at once that all goes well
            stop, watchdog = self._stops[run_id], self._watchdog
            for event in run_trial(spec, stop=stop, watchdog=watchdog, untrained=untrained):
                unsent.append(event)
                may_wait = isinstance(event, Measurement | Evaluation)
                if may_wait and time.monotonic() < quiet_until:
                    continue
                yield unsent
                unsent = []
                if may_wait:
                    quiet_until = time.monotonic() + SEND_SECONDS
        finally:
            del self._stops[run_id]

    def stop(self, run_id: int) -> None:
        """Have a run end at its next deadline check."""
        self._stops[run_id].requested = True

    def prune(self, run_id: int, reason: str) -> None:
        """The same, as PRUNED."""
        stop = self._stops[run_id]
        stop.requested, stop.pruned = True, reason

    def pid(self) -> int:
        """Its process."""
        return os.getpid()


def introduce() -> HostRecord:
    """What a node is, told by a worker there."""
    return this_host()


def take_note(path: str) -> str | None:
    """What the watchdog left in its file, if it did; the file is gone afterwards."""
    note = Path(path)
    try:
        text = note.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    note.unlink()
    return text
