"""Whether a process that is named by its pid still lives: a pid alone may be another's by now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psutil

_START_TOLERANCE = timedelta(seconds=2)
"""The kernel's start times drift by this much against the wall clock."""


def is_alive(pid: int, started_at: datetime | None) -> bool:
    """Whether the process that had this pid, and began then, still runs."""
    now_started_at = start_of(pid)
    if now_started_at is None:
        return False
    return started_at is None or abs(now_started_at - started_at) <= _START_TOLERANCE


def start_of(pid: int) -> datetime | None:
    """When the process began; None if there is none, or only its zombie."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return datetime.fromtimestamp(process.create_time(), UTC)
    except psutil.NoSuchProcess:
        return None
