"""The front as a table of words, for the terminal, the HTML report and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.report.metrics import METRICS, format_metric, format_param, short_names, value_of
from sweeper.report.pareto import study_front
from sweeper.store.rows import StudyRow, TrialRow


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; every row is as long as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


TESTED = ("final_return", "steps_per_second")
"""Metrics of which a trial's row tells the mean over its test seeds."""


def front_table(study: StudyRow, trials: Sequence[TrialRow]) -> Table:
    """One row a trial of the front: number, objectives, what confirmation found of them on test
    seeds (if anything was confirmed), searched parameters.
    """
    best = study_front(study, trials)
    tested = [
        metric
        for metric in study.objectives
        if metric in TESTED and any(trial.n_test_runs for trial in best)
    ]
    paths = list(dict.fromkeys(path for trial in best for path in trial.params))
    names = short_names(paths)
    return Table(
        head=(
            "trial",
            *(METRICS[metric].label for metric in study.objectives),
            *(f"{METRICS[metric].title}, test seeds" for metric in tested),
            *(names[path] for path in paths),
        ),
        rows=tuple(
            (
                f"{trial.number}",
                *(format_metric(metric, value_of(trial, metric)) for metric in study.objectives),
                *(_tested(trial, metric) for metric in tested),
                *(
                    format_param(trial.params[path]) if path in trial.params else ""
                    for path in paths
                ),
            )
            for trial in best
        ),
    )


def _tested(trial: TrialRow, metric: str) -> str:
    value = trial.test_final_return if metric == "final_return" else trial.test_steps_per_second
    text = format_metric(metric, value)
    return f"{text} (n = {trial.n_test_runs})" if trial.n_test_runs else text
