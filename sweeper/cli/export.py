"""`sweeper export`: a trial as a file that `sweeper run` takes."""

from __future__ import annotations

from sweeper.cli.reading import reading
from sweeper.report.export import trial_yaml
from sweeper.store import queries


def export_trial(study: str, *, number: int, db: str) -> None:
    """Print a trial's resolved configuration as YAML."""
    with reading(db) as engine:
        row = queries.study(engine, study)
        trial = queries.trial(engine, row.study_id, number)
    print(trial_yaml(row, trial), end="")
