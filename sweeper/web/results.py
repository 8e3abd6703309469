"""The results that a dashboard shows: a read-only engine, and trials kept while they hold."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sqlalchemy import Engine

from sweeper.store import queries
from sweeper.store.queries import TrialRow


@dataclass(slots=True)
class Results:
    """A page and its figures ask for the same trials within moments, and ten thousand of them
    take a second to read. They are kept for as long as the study's change token stays."""

    engine: Engine
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _trials: dict[int, tuple[str, tuple[TrialRow, ...]]] = field(default_factory=dict)

    def trials(self, study_id: int) -> tuple[str, tuple[TrialRow, ...]]:
        """The study's change token and its trials, at least as new as the token."""
        with self._lock:
            token = queries.change_token(self.engine, study_id)
            kept = self._trials.get(study_id)
            if kept is None or kept[0] != token:
                kept = (token, tuple(queries.trials(self.engine, study_id)))
                self._trials[study_id] = kept
            return kept
