"""The results that a dashboard shows: a read-only engine, and studies kept while they hold."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Engine

from sweeper.report.anytime import Anytime, anytime, contenders
from sweeper.report.figures import Certainty, directions
from sweeper.report.uncertainty import front_probabilities, intervals, runs_by_trial
from sweeper.store import queries
from sweeper.store.lease import is_held
from sweeper.store.rows import LauncherRow, SlotRow, StudyRow, TrialRow


@dataclass(frozen=True, slots=True)
class StudyData:
    """The trials and runs of a study at one moment, and what has been worked out from them."""

    token: str
    trials: tuple[TrialRow, ...]
    runs: tuple[SlotRow, ...]
    certainties: dict[tuple[str, ...], Certainty] = field(default_factory=dict)
    anytime: list[Anytime] = field(default_factory=list)


@dataclass(slots=True)
class Results:
    """A page and its figures ask for the same trials within moments. They are kept, and from
    one change of the study to the next only the trials that changed are read."""

    engine: Engine
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: dict[int, StudyData] = field(default_factory=dict)

    def data(self, study_id: int) -> StudyData:
        """Trials and runs, at least as new as the token with them."""
        with self._lock:
            token = queries.change_token(self.engine, study_id)
            kept = self._kept.get(study_id)
            if kept is not None and kept.token == token:
                return kept
            since = -1 if kept is None else int(kept.token.rsplit(".", 1)[1])
            changed = queries.trials(self.engine, study_id, since=since)
            if kept is not None and not changed:  # a curve grew, or an event was told
                data = StudyData(token, kept.trials, kept.runs, kept.certainties)
            else:
                known = {} if kept is None else {trial.trial_id: trial for trial in kept.trials}
                known |= {trial.trial_id: trial for trial in changed}
                trials = tuple(sorted(known.values(), key=lambda trial: trial.number))
                data = StudyData(token, trials, tuple(queries.study_runs(self.engine, study_id)))
            self._kept[study_id] = data
            return data

    def warm(self) -> None:
        """Read every study once, so that the first visitor need not wait."""
        for study in queries.studies(self.engine):
            self.data(study.study_id)

    def certainty(self, study: StudyRow, data: StudyData, metrics: Sequence[str]) -> Certainty:
        """How sure the front in the space of these metrics is."""
        key = tuple(metrics)
        if key not in data.certainties:
            axes = directions(study, metrics)
            shown = tuple(dict.fromkeys((*study.objectives, *metrics)))
            data.certainties[key] = Certainty(
                front_probabilities(study, data.trials, data.runs, axes),
                {
                    runs[0].number: intervals(runs, shown)
                    for runs in runs_by_trial(data.runs).values()
                    if len(runs) > 1
                },
            )
        return data.certainties[key]

    def anytime(self, study: StudyRow, data: StudyData) -> Anytime:
        """Who leads after how much training time."""
        if not data.anytime:
            rows = contenders(study, data.trials)
            curves = queries.curves(self.engine, [row.trial_id for row in rows])
            data.anytime.append(anytime(rows, curves))
        return data.anytime[0]

    def launcher(self, study_id: int) -> tuple[LauncherRow | None, bool]:
        """The launcher that holds the study, and whether it lives as far as this host can tell."""
        row = queries.launcher(self.engine, study_id)
        alive = row is not None and is_held(row, host=socket.gethostname(), now=datetime.now(UTC))
        return row, alive

    def token(self, study_id: int) -> str:
        """Differs whenever a page of the study would: a change, or its launcher's death."""
        _, alive = self.launcher(study_id)
        return f"{queries.change_token(self.engine, study_id)}{'+' if alive else '-'}"

    def database_token(self) -> str:
        """The same for the pages of the whole database."""
        studies = queries.studies(self.engine)
        alive = "".join("+" if self.launcher(s.study_id)[1] else "-" for s in studies)
        return f"{queries.database_token(self.engine)}{alive}"
