"""A study's trials as the database has them, kept up to date by reading what has changed."""

from __future__ import annotations

from sqlalchemy import Engine

from sweeper.core.records import RunStatus
from sweeper.store import queries
from sweeper.store.rows import TrialRow
from sweeper.study.agenda import Objectives
from sweeper.study.outcome import objectives_of
from sweeper.study.spec import StudySpec


class KnownTrials:
    """Trials by number, and the objectives of each run of those that ran more than once."""

    def __init__(self, reader: Engine, study_id: int, spec: StudySpec) -> None:
        self._reader = reader
        self._study_id = study_id
        self._spec = spec
        self._change = -1
        self.trials: dict[int, TrialRow] = {}
        self.repeated: dict[int, list[Objectives]] = {}

    def refresh(self) -> None:
        """Read the trials that have changed since the last time."""
        # The count first: what changes while the trials are read is read again next time.
        token = queries.change_token(self._reader, self._study_id)
        for trial in queries.trials(self._reader, self._study_id, since=self._change):
            self.trials[trial.number] = trial
            if trial.n_runs > 1:
                self.repeated[trial.number] = self._objectives(trial)
        self._change = int(token.rpartition(".")[2])

    def _objectives(self, trial: TrialRow) -> list[Objectives]:
        runs = [
            run
            for run in queries.runs(self._reader, trial.trial_id)
            if run.seed_kind == "tuning" and run.status == RunStatus.COMPLETED
        ]
        trusted = [run for run in runs if not run.contended] or runs
        return [v for run in trusted if (v := objectives_of(run, self._spec)) is not None]
