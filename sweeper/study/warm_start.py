"""Another study's trials, to begin with."""

from __future__ import annotations

from sqlalchemy import Engine

from sweeper.core.errors import InputError
from sweeper.store import queries
from sweeper.study.outcome import past_trials
from sweeper.study.rebuild import PastTrial
from sweeper.study.spec import StudySpec


def former_trials(reader: Engine, spec: StudySpec) -> list[PastTrial]:
    """The finished trials of the study that `warm_start` names, as the sampler hears of them:
    with numbers below 1. Empty where nothing is named.

    Raises InputError when there is no such study, or nothing in it compares: results of
    another environment or budget would mislead.
    """
    if spec.warm_start is None:
        return []
    source = queries.study(reader, spec.warm_start.study)
    trials = queries.trials(reader, source.study_id) if source.env == spec.trial.env.name else []
    known = [trial for trial in past_trials(trials, spec) if trial.state != "running"]
    if not known:
        raise InputError(
            f"warm_start: study {source.name!r} has no finished trial on {spec.trial.env.name} "
            f"with a budget of {spec.trial.budget}"
        )
    return [
        PastTrial(-index, trial.params, trial.state, trial.values, trial.violations)
        for index, trial in enumerate(known)
    ]
