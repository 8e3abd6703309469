"""Studies and their versions: a file that has changed makes a new one, or is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, exists, select, update

from sweeper import __version__
from sweeper.core.clock import BudgetSpec
from sweeper.core.errors import InputError
from sweeper.store import lease
from sweeper.store import schema as t
from sweeper.store.flatten import budget_columns
from sweeper.store.statements import insert_row


class StudyChangedError(InputError):
    """The study's file is not the one that it was last launched with."""

    def __init__(self, name: str, *, version: int, stored_yaml: str) -> None:
        super().__init__(
            f"study {name!r} was launched with another file (version {version}); "
            "restore that file, or give the study a new name or a new version"
        )
        self.version = version
        self.stored_yaml = stored_yaml


@dataclass(frozen=True, slots=True)
class StudyFile:
    """A study's file, and what of it is stored in columns of its own."""

    yaml: str
    sha256: str
    """What tells one version from another."""
    env: str
    objectives: Mapping[str, str]
    """Metric -> "maximize" | "minimize", in order."""
    constraints: Mapping[str, Mapping[str, float]]
    """Metric -> {"min": x} and/or {"max": x}."""
    budget: BudgetSpec

    def is_same(self, *, yaml: str, sha256: str) -> bool:
        """Whether a stored file means the same. The same text does, whatever another release
        hashes of it: one that knows more keys, for example."""
        return sha256 == self.sha256 or yaml == self.yaml

    def columns(self) -> dict[str, Any]:
        """As columns of `study_versions`."""
        return {
            "spec_yaml": self.yaml,
            "spec_sha256": self.sha256,
            "env": self.env,
            "objectives": json.dumps(dict(self.objectives)),
            "constraints": json.dumps({k: dict(v) for k, v in self.constraints.items()}),
            **budget_columns(self.budget),
        }


@dataclass(frozen=True, slots=True)
class StudyRef:
    """A study as it is launched now."""

    study_id: int
    version_id: int
    version_number: int
    created: bool
    """Whether this call made the study."""


def ensure_study(
    connection: Connection,
    name: str,
    file: StudyFile,
    *,
    target_trials: int | None,
    new_version: bool,
    now: datetime,
) -> StudyRef:
    """The study of that name, made or continued; see `Store.ensure_study`."""
    studies = t.studies.c
    study_id = connection.scalar(select(studies.study_id).where(studies.name == name))
    created = study_id is None
    if study_id is None:
        study_id = insert_row(
            connection,
            t.studies,
            name=name,
            created_at=now,
            created_by_version=__version__,
            launched_at=now,
            change_count=0,
        )
    lease.require_free(connection, study_id, host=socket.gethostname(), now=now)
    version_id, number = _version(
        connection, study_id, name, file, new_version=new_version, now=now
    )
    connection.execute(
        update(t.studies)
        .where(studies.study_id == study_id)
        .values(launched_at=now, target_trials=target_trials)
    )
    return StudyRef(study_id, version_id, number, created)


def _version(
    connection: Connection,
    study_id: int,
    name: str,
    file: StudyFile,
    *,
    new_version: bool,
    now: datetime,
) -> tuple[int, int]:
    """(version_id, number) of the version with this file: the latest, or another."""
    versions = t.study_versions.c
    latest = connection.execute(
        select(versions.version_id, versions.number, versions.spec_sha256, versions.spec_yaml)
        .where(versions.study_id == study_id)
        .order_by(versions.number.desc())
        .limit(1)
    ).first()
    if latest is not None and file.is_same(yaml=latest.spec_yaml, sha256=latest.spec_sha256):
        return latest.version_id, latest.number
    if latest is not None and not new_version:
        asked = exists().where(t.trials.c.version_id == latest.version_id)
        if connection.scalar(select(asked)):
            raise StudyChangedError(name, version=latest.number, stored_yaml=latest.spec_yaml)
        # No trial was asked for under it, so that nothing says what it meant.
        connection.execute(
            update(t.study_versions)
            .where(versions.version_id == latest.version_id)
            .values(created_at=now, **file.columns())
        )
        return latest.version_id, latest.number
    number = 1 if latest is None else latest.number + 1
    version_id = insert_row(
        connection,
        t.study_versions,
        study_id=study_id,
        number=number,
        created_at=now,
        **file.columns(),
    )
    return version_id, number
