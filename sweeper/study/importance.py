"""How much each parameter mattered to each objective.

Told from the best trials against the rest, without the worst: a configuration that fails says
much about how to fail and nothing about how to be best. Failed, pruned and infeasible trials are
left out, and so is the worst quarter of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.store.rows import TrialRow
from sweeper.study.outcome import past_trials
from sweeper.study.rebuild import RebuiltStudy
from sweeper.study.spec import LoadedStudy

MIN_TRIALS = 10
BEST, AMONG = 0.1, 0.75
"""The best tenth (but five trials, if there are enough) against the best three quarters."""


def is_due(feasible: int, before: int) -> bool:
    """Whether so many feasible trials tell enough more than `before` did: ten more, and a tenth
    more, so that a long study spends no more on this than a short one."""
    return feasible - before >= max(MIN_TRIALS, before // 10)


def importances(loaded: LoadedStudy, trials: Sequence[TrialRow]) -> dict[str, dict[str, float]]:
    """Objective -> parameter -> share, summing to 1 where anything mattered; empty before there
    are ten trials to tell from."""
    feasible = [trial for trial in trials if trial.feasible]
    past = [trial for trial in past_trials(feasible, loaded.spec) if trial.score is not None]
    if len(past) < MIN_TRIALS:
        return {}
    objectives = loaded.spec.objectives
    study = RebuiltStudy(loaded.space, list(objectives.values()))
    best = min(max(BEST, 5 / len(past)), AMONG / 2)
    return {
        str(metric): study.importance(past, index, best=best, among=AMONG)
        for index, metric in enumerate(objectives)
    }
