"""`sweeper status`: how far the studies are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sweeper.cli.printing import print_json
from sweeper.cli.reading import reading
from sweeper.cli.table import print_table
from sweeper.core.records import RunStatus
from sweeper.store import queries
from sweeper.store.rows import StudyRow


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """A study in numbers of trials."""

    study: str
    environment: str
    trials: int
    target_trials: int | None
    completed: int
    running: int
    """Running, or waiting to be."""
    failed: int
    """Ended without being completed, for whatever reason."""
    statuses: dict[str, int]
    last_event_at: datetime | None


def show_status(name: str | None, *, db: str, as_json: bool) -> None:
    """A line a study; one study's alone if it is named."""
    with reading(db) as engine:
        rows = queries.studies(engine) if name is None else [queries.study(engine, name)]
    statuses = [study_status(row) for row in rows]
    if as_json:
        print_json([asdict(status) for status in statuses])
    elif not statuses:
        print(f"no studies in {db} yet; `sweeper launch FILE` makes one")
    else:
        print_table(
            ("study", "environment", "completed", "of", "running", "failed", "last event (UTC)"),
            [_cells(status) for status in statuses],
        )


def study_status(row: StudyRow) -> StudyStatus:
    """The counts of a study's row."""
    counts: dict[Any, int] = dict(row.status_counts)
    running = sum(counts.get(s, 0) for s in (RunStatus.QUEUED, RunStatus.RUNNING))
    completed = counts.get(RunStatus.COMPLETED, 0)
    return StudyStatus(
        study=row.name,
        environment=row.env,
        trials=row.n_trials,
        target_trials=row.target_trials,
        completed=completed,
        running=running,
        failed=row.n_trials - completed - running,
        statuses=dict(row.status_counts),
        last_event_at=row.last_event_at,
    )


def _cells(status: StudyStatus) -> tuple[str, ...]:
    return (
        status.study,
        status.environment,
        str(status.completed),
        "-" if status.target_trials is None else str(status.target_trials),
        str(status.running),
        str(status.failed),
        f"{status.last_event_at:%Y-%m-%d %H:%M:%S}" if status.last_event_at else "-",
    )
