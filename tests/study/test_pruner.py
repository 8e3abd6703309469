"""Rungs: who is ended, when, and why."""

from __future__ import annotations

from sweeper.core.records import Measurement
from sweeper.study.pruner import RungPoint, Rungs

RUNGS = (0.1, 0.5)


def at(progress: float, training_return: float | None, speed: float) -> Measurement:
    return Measurement(
        elapsed_seconds=progress * 10,
        progress=progress,
        env_steps=int(speed * progress * 10),
        updates=10,
        episodes=10,
        training_return=training_return,
        episode_length=10.0,
        steps_per_second=speed,
        learning_rate=1e-3,
    )


def peers(n: int, rung: int = 0) -> list[RungPoint]:
    return [RungPoint(i + 1, rung, 100.0 + i, 1000.0 + i) for i in range(n)]


def test_who_is_behind_in_both_is_ended_and_told_by_whom() -> None:
    pruned = Rungs(RUNGS, peers(4)).reach(9, at(0.12, 50.0, 500.0))
    assert pruned is not None
    assert pruned.rung == 1
    assert pruned.reason == (
        "behind at 10% of the budget: 4 of 4 trials had a better return and speed (1, 2, 3, 4)"
    )


def test_who_is_ahead_in_one_goes_on() -> None:
    assert Rungs(RUNGS, peers(4)).reach(9, at(0.12, 50.0, 5000.0)) is None
    assert Rungs(RUNGS, peers(4)).reach(9, at(0.12, 500.0, 50.0)) is None


def test_equals_do_not_beat_each_other() -> None:
    same = [RungPoint(i, 0, 100.0, 1000.0) for i in range(1, 7)]
    assert Rungs(RUNGS, same).reach(9, at(0.12, 100.0, 1000.0)) is None


def test_the_first_at_a_rung_are_never_ended() -> None:
    rungs = Rungs(RUNGS)
    for number, speed in enumerate((500.0, 400.0, 300.0, 200.0), start=1):
        assert rungs.reach(number, at(0.1, speed, speed)) is None
    assert rungs.reach(5, at(0.1, 100.0, 100.0)) is not None


def test_two_of_many_are_not_enough_to_be_ended_by() -> None:
    crowd = [RungPoint(i, 0, 10.0, 10.0) for i in range(1, 9)]
    best = [RungPoint(20 + i, 0, 90.0, 90.0) for i in range(3)]
    assert Rungs(RUNGS, [*crowd, *best]).reach(9, at(0.1, 50.0, 50.0)) is None


def test_a_rung_is_passed_once_and_before_it_nothing_happens() -> None:
    rungs = Rungs(RUNGS, peers(4))
    assert rungs.reach(9, at(0.09, 1.0, 1.0)) is None
    assert rungs.reach(9, at(0.1, 500.0, 1.0)) is None
    assert rungs.reach(9, at(0.2, 1.0, 1.0)) is None  # not at a rung any more
    assert rungs.reach(9, at(0.5, 1.0, 1.0)) is None  # nobody was at the second before


def test_without_a_finished_episode_the_next_measurement_is_judged() -> None:
    rungs = Rungs(RUNGS, peers(4))
    assert rungs.reach(9, at(0.1, None, 1.0)) is None
    assert rungs.reach(9, at(0.2, 1.0, 1.0)) is not None


def test_a_trial_that_is_run_again_is_not_its_own_peer() -> None:
    rungs = Rungs(RUNGS, peers(4))
    assert rungs.reach(4, at(0.3, 1.0, 1.0)) is None
