"""Which hardware the trials of a front were measured on: speeds of different machines, and returns
after so many seconds of them, do not compare, and whoever shows them together says so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from sweeper.core.errors import InputError
from sweeper.report.pareto import candidates, has_study_budget
from sweeper.store.rows import SlotRow, StudyRow, TrialRow

Hardware = Mapping[int, frozenset[str]]
"""trial_id -> hardware classes of the runs that its figures are the means of."""
R = TypeVar("R")


class Shared(NamedTuple, Generic[R]):
    """Runs of two trials that were made on the same hardware."""

    hardware: str | None
    """None where it is not known of any of them."""
    before: list[R]
    after: list[R]


def hardware_of(runs: Sequence[SlotRow], seed_kinds: Sequence[str] = ("tuning",)) -> Hardware:
    """The hardware of each trial that has completed on a machine that is known."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for run in runs:
        measures = run.status == "COMPLETED" and run.seed_kind in seed_kinds
        if measures and run.hardware_class is not None:
            found[run.trial_id].add(run.hardware_class)
    return {trial_id: frozenset(classes) for trial_id, classes in found.items()}


def on_the_same(
    before: Sequence[R], after: Sequence[R], class_of: Callable[[R], str | None]
) -> Shared[R] | None:
    """What of both was made on one hardware class: that on which both have most runs. None
    where they have no class in common."""
    n_before, n_after = Counter(map(class_of, before)), Counter(map(class_of, after))
    common = n_before.keys() & n_after.keys()
    if not common:
        return None
    most = max(common, key=lambda c: (min(n_before[c], n_after[c]), n_after[c], c or ""))
    return Shared(
        most,
        [run for run in before if class_of(run) == most],
        [run for run in after if class_of(run) == most],
    )


def mixture(study: StudyRow, trials: Sequence[TrialRow], hardware: Hardware) -> str:
    """What is to be said of the front of these trials: empty when one kind of hardware measured
    all that it was chosen from."""
    compared = candidates([t for t in trials if has_study_budget(study, t)], study.objectives)
    counts = Counter(name for t in compared for name in hardware.get(t.trial_id, ()))
    if len(counts) < 2:
        return ""
    listed = ", ".join(f"{n} on {name}" for name, n in sorted(counts.items()))
    return f"trials of different hardware are compared here, whatever its speed: {listed}"


def measured_on(trials: Sequence[TrialRow], hardware: Hardware, wanted: str) -> list[TrialRow]:
    """The trials whose runs were all made on the hardware class that contains the words `wanted`.

    Raises InputError unless that is exactly one, or is the whole name of one.
    """
    classes = sorted({name for names in hardware.values() for name in names})
    chosen = [name for name in classes if wanted.lower() in name.lower()]
    if wanted in classes:
        chosen = [wanted]
    if len(chosen) != 1:
        there_are = ", ".join(map(repr, classes)) or "none yet"
        is_several = "is several of" if chosen else "is not among"
        raise InputError(f"--hardware {wanted!r} {is_several} the study's hardware: {there_are}")
    return [trial for trial in trials if hardware.get(trial.trial_id) == frozenset(chosen)]
