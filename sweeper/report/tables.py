"""The front as a table of words, for the terminal, the HTML report and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.report.metrics import METRICS, format_metric, format_param, short_names, value_of
from sweeper.report.pareto import study_front
from sweeper.store.queries import StudyRow, TrialRow


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; every row is as long as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def front_table(study: StudyRow, trials: Sequence[TrialRow]) -> Table:
    """One row a trial of the front: number, objectives, searched parameters."""
    best = study_front(study, trials)
    paths = list(dict.fromkeys(path for trial in best for path in trial.params))
    names = short_names(paths)
    return Table(
        head=(
            "trial",
            *(METRICS[metric].label for metric in study.objectives),
            *(names[path] for path in paths),
        ),
        rows=tuple(
            (
                f"{trial.number}",
                *(format_metric(metric, value_of(trial, metric)) for metric in study.objectives),
                *(
                    format_param(trial.params[path]) if path in trial.params else ""
                    for path in paths
                ),
            )
            for trial in best
        ),
    )
