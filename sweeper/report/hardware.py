"""Which hardware the trials of a front were measured on: speeds of different machines, and returns
after so many seconds of them, do not compare, and whoever shows them together says so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from sweeper.core.errors import InputError
from sweeper.report.pareto import candidates, has_study_budget
from sweeper.store.rows import SlotRow, StudyRow, TrialRow

Hardware = Mapping[int, frozenset[str]]
"""trial_id -> hardware classes of the runs that its figures are the means of."""


def hardware_of(runs: Sequence[SlotRow]) -> Hardware:
    """The hardware of each trial that has completed on a machine that is known."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for run in runs:
        measures = run.status == "COMPLETED" and run.seed_kind == "tuning"
        if measures and run.hardware_class is not None:
            found[run.trial_id].add(run.hardware_class)
    return {trial_id: frozenset(classes) for trial_id, classes in found.items()}


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
