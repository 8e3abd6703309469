"""Which trial has earned another seed.

Repeating every trial wastes most of the repeats on trials that are clearly beaten; repeating
none leaves lucky ones on the front. So a re-run goes to the trial of which it is least certain
whether it belongs on the front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.study.doubt import probability_on_front
from sweeper.study.spec import ReplicateSpec

MIN_TRIALS = 4
"""Finished trials below which there is no front to be uncertain of."""
DOUBT = 0.05
"""A probability within this of 0 or 1 is certain enough."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finished, feasible trial that a re-run may be spent on."""

    number: int
    runs: tuple[tuple[float, ...], ...]
    """The objectives of each of its completed runs, on scales on which the noise of all trials
    is alike."""
    running: int = 0
    """Further runs of it that are under way or waiting."""


def next_replicate(
    candidates: Sequence[Candidate], maximize: Sequence[bool], spec: ReplicateSpec
) -> int | None:
    """Number of the trial to run again, or None if none is in doubt."""
    if len(candidates) < MIN_TRIALS:
        return None
    probability = probability_on_front([c.runs for c in candidates], maximize)
    in_doubt = [
        (p * (1.0 - p), -len(candidate.runs), -candidate.number)
        for candidate, p in zip(candidates, np.asarray(probability).tolist(), strict=True)
        if DOUBT < p < 1.0 - DOUBT
        and not candidate.running
        and len(candidate.runs) < spec.max_seeds
    ]
    return -max(in_doubt)[2] if in_doubt else None
