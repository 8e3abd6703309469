"""Trials of different machines, told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sweeper.core.errors import InputError
from sweeper.report.hardware import hardware_of, measured_on, mixture, on_the_same
from sweeper.store.rows import SlotRow, StudyRow, TrialRow

OLD, NEW = "Xeon E5 x 8", "EPYC 9654 x 8"


@pytest.fixture
def hardware(make_slot: Callable[..., SlotRow]) -> dict[int, frozenset[str]]:
    runs = [
        make_slot(trial_id=1, hardware_class=OLD),
        make_slot(trial_id=2, hardware_class=NEW),
        make_slot(trial_id=3, hardware_class=NEW),
        make_slot(trial_id=3, hardware_class=OLD, kind="replicate"),
        make_slot(trial_id=4, hardware_class=NEW, status="LOST"),
        make_slot(trial_id=4, hardware_class=OLD, kind="retry"),
        make_slot(trial_id=1, hardware_class=NEW, seed_kind="test"),
        make_slot(trial_id=5),
    ]
    return dict(hardware_of(runs))


@pytest.fixture
def trials(make_trial: Callable[..., TrialRow]) -> list[TrialRow]:
    return [make_trial(n, final_return=1.0, steps_per_second=float(n)) for n in range(1, 6)]


def test_a_trial_s_hardware_is_that_of_the_runs_its_figures_come_from(
    hardware: dict[int, frozenset[str]],
) -> None:
    assert hardware == {1: {OLD}, 2: {NEW}, 3: {OLD, NEW}, 4: {OLD}}


def test_a_front_of_one_kind_of_hardware_needs_no_word(
    make_study: Callable[..., StudyRow],
    trials: list[TrialRow],
    hardware: dict[int, frozenset[str]],
) -> None:
    assert mixture(make_study(), [trials[0], trials[3], trials[4]], hardware) == ""


def test_a_mixture_is_marked_with_what_was_mixed_although_one_kind_owns_the_front(
    make_study: Callable[..., StudyRow],
    trials: list[TrialRow],
    hardware: dict[int, frozenset[str]],
) -> None:
    said = mixture(make_study(), trials, hardware)
    assert said.endswith("2 on EPYC 9654 x 8, 3 on Xeon E5 x 8")


@pytest.mark.parametrize(
    ("words", "numbers"), [("EPYC", [2]), ("xeon", [1, 4]), (NEW, [2]), ("e5", [1, 4])]
)
def test_trials_of_one_kind_are_those_that_ran_on_nothing_else(
    trials: list[TrialRow], hardware: dict[int, frozenset[str]], words: str, numbers: list[int]
) -> None:
    assert [trial.number for trial in measured_on(trials, hardware, words)] == numbers


@pytest.mark.parametrize(("words", "why"), [("x 8", "is several of"), ("ARM", "is not among")])
def test_words_that_name_no_kind_or_several_are_refused(
    trials: list[TrialRow], hardware: dict[int, frozenset[str]], words: Any, why: str
) -> None:
    with pytest.raises(InputError, match=f"'{words}' {why} .*'{NEW}', '{OLD}'"):
        measured_on(trials, hardware, words)


@pytest.mark.parametrize(
    ("before", "after", "chosen"),
    [
        ("aab", "b", ("b", ["b"], ["b"])),
        ("aabb", "abb", ("b", ["b", "b"], ["b", "b"])),
        ("a", "bb", None),
        ("", "a", None),
    ],
)
def test_of_two_sides_the_class_on_which_both_have_most_runs_is_compared(
    before: str, after: str, chosen: tuple[str, list[str], list[str]] | None
) -> None:
    assert on_the_same(before, after, lambda run: run) == chosen
