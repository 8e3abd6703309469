"""Whether a worker's versions go with the launcher's.

Trials and results travel between the two, and configurations are compared by what they return
and how fast they run: a release that does either differently must not take part unnoticed.
"""

from __future__ import annotations

from sweeper.core.records import HostRecord

PARTS = {"sweeper": 3, "python": 2, "torch": 2, "gymnasium": 2}
"""What is compared, and by how many parts of its version. The others only mend faults; sweeper's
own releases speak to no other."""


def differences(launcher: HostRecord, worker: HostRecord) -> str | None:
    """What of the worker does not go with the launcher, for people; None if all does."""
    found = []
    for what, parts in PARTS.items():
        ours, theirs = getattr(launcher, what), getattr(worker, what)
        if _leading(ours, parts) != _leading(theirs, parts):
            found.append(f"{what} {theirs} (the launcher has {ours})")
    return ", ".join(found) or None


def _leading(version: str, parts: int) -> list[str]:
    """`2.9.1+cpu` -> [2, 9] for two parts: how it was built is no part of a version."""
    return version.partition("+")[0].split(".")[:parts]
