"""Which trial has earned another seed."""

from __future__ import annotations

import numpy as np
import pytest

from sweeper.study.replicate import Candidate, expected_changes, next_replicate, seed_variance
from sweeper.study.spec import ReplicateSpec

BOTH = [True, True]
SPEC = ReplicateSpec(max_seeds=3)


def spread(*extra: Candidate) -> list[Candidate]:
    """Clearly beaten trials, one whose two runs tell the noise (about 1), and the extra."""
    beaten = [Candidate(i, ((float(i), float(i)),)) for i in range(1, 9)]
    return [*beaten, Candidate(20, ((40.0, 40.0), (41.0, 39.0))), *extra]


def test_one_that_may_or_may_not_be_on_the_front_is_run_again() -> None:
    front = Candidate(20, ((40.0, 40.0), (41.0, 39.0), (40.4, 39.7)))
    beaten = spread()[:-1]
    assert next_replicate([*beaten, front, Candidate(30, ((40.0, 39.8),))], BOTH, SPEC) == 30


def test_nobody_is_run_again_who_is_clearly_beaten() -> None:
    known = Candidate(20, ((40.0, 40.0), (41.0, 39.0), (40.4, 39.7)))
    assert next_replicate([*spread()[:-1], known], BOTH, SPEC) is None


def test_a_lucky_one_that_hides_the_others_is_run_again_though_the_front_is_surely_its() -> None:
    """The fastest of all is on the front whatever it returns: that is not what is in doubt."""
    noisy = [Candidate(i, ((60.0, 10.0 * i), (80.0, 10.0 * i))) for i in range(1, 6)]
    lucky = Candidate(9, ((100.0, 60.0),))
    assert next_replicate([*noisy, lucky], BOTH, SPEC) == 9


def test_what_changes_little_is_not_worth_a_run() -> None:
    sure = [Candidate(i, ((float(i), -float(i)), (i + 1e-4, -float(i)))) for i in range(8)]
    assert next_replicate(sure, BOTH, SPEC) is None


def test_enough_seeds_are_enough() -> None:
    tried = Candidate(30, ((40.0, 39.8), (40.1, 40.0), (39.9, 40.2)))
    assert next_replicate(spread(tried), BOTH, SPEC) == 20
    twice = ReplicateSpec(max_seeds=2)
    assert next_replicate(spread(tried), BOTH, twice) is None


def test_who_is_being_run_again_is_waited_for() -> None:
    busy = Candidate(30, ((40.0, 39.8),), running=1)
    assert next_replicate(spread(busy), BOTH, ReplicateSpec(max_seeds=2)) is None


def test_a_handful_of_trials_leaves_nothing_to_doubt() -> None:
    few = [Candidate(1, ((1.0, 1.0),)), Candidate(2, ((1.0, 1.0),))]
    assert next_replicate(few, BOTH, SPEC) is None


def test_more_runs_leave_less_to_change() -> None:
    noise = np.array([[-1.0, 1.0], [1.0, -1.0]])
    others = [noise, noise + 5.0]
    change = [expected_changes([*others, np.tile(noise, (n, 1)) + 10.0], BOTH)[2] for n in (1, 8)]
    assert change[0] > 3 * change[1] > 0.0


def test_the_expected_change_of_one_objective_is_that_of_the_best() -> None:
    """Of two that are far apart, the better one's moves are the front's: E|z| = sqrt(2 / pi)."""
    runs = [[[0.0], [2.0]], [[99.0], [101.0]]]  # means 1 and 100, variance about 2
    changes = expected_changes(runs, [True])
    step = np.sqrt(seed_variance(runs)[0] / 6.0) / 99.0
    assert changes == pytest.approx([0.0, step * np.sqrt(2.0 / np.pi)], rel=0.25)


def test_what_is_minimized_is_better_when_small() -> None:
    runs = [[(1.0, 5.0)], [(9.0, 9.0)], [(2.0, 8.0)], [(3.0, 1.0)], [(0.5, 20.0)]]
    turned = [[(-a, -b) for a, b in values] for values in runs]
    changes = expected_changes(runs, [False, False])
    assert changes == pytest.approx(expected_changes(turned, BOTH))
    assert changes[1] == 0.0
    assert changes[0] > 0.0


def test_the_variance_between_seeds_is_pooled_over_configurations() -> None:
    random = np.random.default_rng(0)
    runs = [random.normal(i / 100, (2.0, 30.0), size=(4, 2)) for i in range(300)]
    assert np.sqrt(seed_variance(runs)) == pytest.approx([2.0, 30.0], rel=0.05)


def test_before_anything_ran_twice_the_noise_is_a_tenth_of_the_spread() -> None:
    runs = [[(float(i), 100.0 * i)] for i in range(101)]  # the middle half spans 50 and 5000
    assert np.sqrt(seed_variance(runs)) == pytest.approx([5.0, 500.0])
