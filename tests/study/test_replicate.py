"""Which trial has earned another seed."""

from __future__ import annotations

from sweeper.study.replicate import Candidate, next_replicate
from sweeper.study.spec import ReplicateSpec

BOTH = [True, True]
SPEC = ReplicateSpec(max_seeds=3)


def spread(*extra: Candidate) -> list[Candidate]:
    """Clearly beaten trials, one whose two runs tell the noise (about 1), and the extra."""
    beaten = [Candidate(i, ((float(i), float(i)),)) for i in range(1, 9)]
    return [*beaten, Candidate(20, ((40.0, 40.0), (41.0, 39.0))), *extra]


def test_the_one_in_doubt_is_run_again() -> None:
    assert next_replicate(spread(Candidate(30, ((40.0, 39.8),))), BOTH, SPEC) == 30


def test_nobody_is_run_again_who_is_clearly_beaten_or_clearly_best() -> None:
    assert next_replicate(spread(Candidate(30, ((90.0, 90.0),))), BOTH, SPEC) is None


def test_enough_seeds_are_enough() -> None:
    tried = Candidate(30, ((40.0, 39.8), (40.1, 40.0), (39.9, 40.2)))
    assert next_replicate(spread(tried), BOTH, SPEC) == 20  # the other one in doubt
    twice = ReplicateSpec(max_seeds=2)
    assert next_replicate(spread(tried), BOTH, twice) is None


def test_who_is_being_run_again_is_waited_for() -> None:
    busy = Candidate(30, ((40.0, 39.8),), running=1)
    assert next_replicate(spread(busy), BOTH, ReplicateSpec(max_seeds=2)) is None


def test_a_handful_of_trials_leaves_nothing_to_doubt() -> None:
    few = [Candidate(1, ((1.0, 1.0),)), Candidate(2, ((1.0, 1.0),))]
    assert next_replicate(few, BOTH, SPEC) is None
