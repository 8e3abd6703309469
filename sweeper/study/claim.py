"""A study that one launcher alone works on."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sweeper.core.errors import DatabaseAwayError
from sweeper.store.store import Store
from sweeper.store.versions import StudyRef
from sweeper.study.spec import LoadedStudy

LEASE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A study that this launcher alone may work on."""

    study: StudyRef
    launcher_id: str


@contextmanager
def claim_study(
    store: Store, loaded: LoadedStudy, *, target_trials: int | None, new_version: bool = False
) -> Iterator[Claim]:
    """Make or find the study of a file, and hold its lease.

    Raises StudyChangedError for a file that differs from the stored one (unless it may
    make a `new_version`), LauncherBusyError while another launcher works on the study.
    """
    spec, launcher_id = loaded.spec, uuid.uuid4().hex
    study = store.ensure_study(
        spec.study,
        env=spec.trial.env.name,
        spec_yaml=loaded.text,
        spec_sha256=loaded.sha256,
        objectives={str(metric): d for metric, d in spec.objectives.items()},
        constraints={
            metric: bounds.model_dump(exclude_none=True)
            for metric, bounds in spec.constraints.items()
        },
        budget=spec.trial.budget,
        target_trials=target_trials,
        new_version=new_version,
    )
    store.acquire_lease(
        study.study_id,
        launcher_id=launcher_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        seconds=LEASE_SECONDS,
    )
    try:
        yield Claim(study, launcher_id)
    finally:
        with suppress(DatabaseAwayError):  # then it runs out
            store.release_lease(study.study_id, launcher_id=launcher_id)
