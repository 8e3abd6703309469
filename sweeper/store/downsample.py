"""Thinning a stream of measurements as it arrives, to a size that queries stay quick on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sweeper.core.records import Measurement

POINTS_PER_RUN = 300


class Point(NamedTuple):
    """Where a stored measurement stands."""

    env_steps: int
    progress: float


def thin(
    rows: Sequence[Measurement], *, stored: Sequence[Point] = ()
) -> tuple[list[Measurement], int | None]:
    """What to store of `rows`, which follow what is stored already.

    The budget is cut into `POINTS_PER_RUN` equal shares. Kept are the first measurement of
    each share and, always, the newest one, which gives way once it is no longer the newest.

    rows: in order of env_steps; those not beyond the stored ones are repeats, and dropped.
    stored: the last two points that are stored, newest first.
    Returns the rows to insert, and the env_steps of the stored one to delete, if any.
    """
    newest = stored[0].env_steps if stored else -1
    fresh = [row for row in rows if row.env_steps > newest]
    if not fresh:
        return [], None
    shares = [_share(point.progress) for point in stored]
    passing = len(shares) == 2 and shares[0] == shares[1]
    last = shares[0] if shares else -1
    kept = []
    for row in fresh:
        if (share := _share(row.progress)) > last:
            kept.append(row)
            last = share
    if not kept or kept[-1] is not fresh[-1]:
        kept.append(fresh[-1])
    return kept, newest if passing else None


def _share(progress: float) -> int:
    return min(int(progress * POINTS_PER_RUN), POINTS_PER_RUN - 1)
