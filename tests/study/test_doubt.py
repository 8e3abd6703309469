"""Probabilities to stand on the front, against cases that are known."""

from __future__ import annotations

import numpy as np
import pytest

from sweeper.study.doubt import probability_on_front, seed_variance

BOTH = [True, True]


def test_the_variance_between_seeds_is_pooled_over_configurations() -> None:
    random = np.random.default_rng(0)
    runs = [random.normal(i / 100, (2.0, 30.0), size=(4, 2)) for i in range(300)]
    assert np.sqrt(seed_variance(runs)) == pytest.approx([2.0, 30.0], rel=0.05)


def test_before_anything_ran_twice_the_noise_is_a_tenth_of_the_spread() -> None:
    runs = [[(float(i), 100.0 * i)] for i in range(101)]  # the middle half spans 50 and 5000
    assert np.sqrt(seed_variance(runs)) == pytest.approx([5.0, 500.0])


def test_two_equals_each_stand_in_three_cases_of_four() -> None:
    """One of them is better in both in half of the cases, and each is it as often."""
    same = [np.array([[0.0, 0.0], [1.0, 1.0]])] * 2
    assert probability_on_front(same, BOTH, draws=4000) == pytest.approx([0.75] * 2, abs=0.03)


def test_the_clearly_best_is_certain_and_the_clearly_beaten_hopeless() -> None:
    noise = np.array([[-0.1, 0.1], [0.1, -0.1]])
    runs = [noise + 10.0, noise, noise + np.array([20.0, -20.0]), noise + 9.99]
    p = probability_on_front(runs, BOTH, draws=1000)
    assert p[0] > 0.5
    assert p[1] == 0.0
    assert p[2] == 1.0
    assert 0.1 < p[3] < 0.9


def test_more_runs_make_surer() -> None:
    noise = np.array([[-1.0, 1.0], [1.0, -1.0]])
    best, behind = noise + 10.0, noise + 9.0
    doubt = probability_on_front([best, behind], BOTH, draws=2000)[1]
    many = [np.tile(runs, (20, 1)) for runs in (best, behind)]
    assert probability_on_front(many, BOTH, draws=2000)[1] < doubt


def test_what_is_minimized_is_better_when_small() -> None:
    runs = [[(1.0, 5.0)], [(1.0, 9.0)], [(2.0, 5.0)], [(3.0, 1.0)], [(0.5, 20.0)]]
    p = probability_on_front(runs, [False, False], draws=1000)
    assert p[3] == 1.0
    assert p[0] > p[1]
    assert p[0] > p[2]


def test_nothing_has_no_probabilities() -> None:
    assert probability_on_front([], BOTH).shape == (0,)
