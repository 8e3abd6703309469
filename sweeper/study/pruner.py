"""Ending trials that fall behind, by the clock and by two objectives at once.

At each rung, a share of the wall-clock budget, a run leaves its training return so far and its
speed. It goes on unless too many of those that were there before it had more of both. Who is
first is never ended, and nobody waits: successive halving as in ASHA (Li et al. 2020), with
dominance in the place of rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sweeper.core.records import Measurement

MIN_PEERS = 4
"""Runs that must have been at a rung before anybody is ended there."""
ENOUGH = 1 / 3
"""Share of the peers that must beat a run, two at least."""


class RungPoint(NamedTuple):
    """What a trial showed at a rung."""

    number: int
    rung: int
    """0 for the first."""
    training_return: float
    steps_per_second: float


@dataclass(frozen=True, slots=True)
class Pruned:
    """A trial is to be ended."""

    rung: int
    reason: str


class Rungs:
    """What every trial of a study showed at its rungs."""

    def __init__(self, shares: Sequence[float], known: Iterable[RungPoint] = ()) -> None:
        """`shares` of the budget, rising; `known`: what earlier launches saw."""
        self._shares = tuple(shares)
        self._points: dict[int, list[RungPoint]] = defaultdict(list)
        self._passed: set[tuple[int, int]] = set()  # (trial, rung)
        for point in known:
            self._record(point)

    def reach(self, number: int, measurement: Measurement) -> Pruned | None:
        """Take note of a measurement; says so if it ends its trial. A trial without a
        finished episode shows nothing yet, and is judged at its next rung."""
        reached = [i for i, share in enumerate(self._shares) if measurement.progress >= share]
        if not reached or (number, reached[-1]) in self._passed:
            return None
        if measurement.training_return is None:
            return None
        point = RungPoint(
            number, reached[-1], measurement.training_return, measurement.steps_per_second
        )
        peers = tuple(self._points[point.rung])
        self._record(point)
        beaten_by = [peer.number for peer in peers if _beats(peer, point)]
        if len(peers) < MIN_PEERS or len(beaten_by) < max(2.0, ENOUGH * len(peers)):
            return None
        named = ", ".join(map(str, beaten_by[:10])) + (", ..." if len(beaten_by) > 10 else "")
        share = self._shares[point.rung]
        return Pruned(
            point.rung + 1,
            f"behind at {share:.0%} of the budget: {len(beaten_by)} of {len(peers)} trials had "
            f"a better return and speed ({named})",
        )

    def _record(self, point: RungPoint) -> None:
        self._passed.add((point.number, point.rung))
        self._points[point.rung].append(point)


def _beats(peer: RungPoint, point: RungPoint) -> bool:
    theirs, ours = peer[2:], point[2:]
    return theirs != ours and all(a >= b for a, b in zip(theirs, ours, strict=True))
