"""Keeping every thread of this process on the CPUs of its lease."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

CAN_PIN = hasattr(os, "sched_setaffinity")
"""Whether the system has CPU affinity; macOS has not."""


@contextmanager
def pinned_to(cpus: Iterable[int]) -> Iterator[None]:
    """Run on these CPUs, and give a reused process its old affinity back.

    All threads, since the system's call moves one: pools that torch has started for an earlier
    trial, and those that Ray keeps beside the trial's, would stay where they were, on cores
    that are another trial's by now.
    """
    if not CAN_PIN:
        yield
        return
    before = os.sched_getaffinity(0)
    _move_threads(cpus)
    try:
        yield
    finally:
        _move_threads(before)


def _move_threads(cpus: Iterable[int]) -> None:
    allowed = frozenset(cpus)
    os.sched_setaffinity(0, allowed)
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # ended meanwhile
            os.sched_setaffinity(int(thread), allowed)
