"""Tuning against test values: whether what looked best still is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeper.report.metrics import METRICS, format_metric
from sweeper.report.statistics import bootstrap
from sweeper.report.tables import Table
from sweeper.store.rows import RunRow, StudyRow, TrialRow


def confirmation_table(
    study: StudyRow,
    trials: Sequence[TrialRow],
    runs: Mapping[int, Sequence[RunRow]],
    *,
    budget_seconds: float | None,
    budget_env_steps: int | None,
) -> Table:
    """One row a trial with COMPLETED test runs on this budget: for each objective the mean over
    its tuning seeds, and over its test seeds with the 95% interval.

    runs: trial_id -> its runs.
    """
    rows: list[tuple[str, ...]] = []
    for trial in trials:
        done = [run for run in runs.get(trial.trial_id, ()) if run.status == "COMPLETED"]
        tuning = [run for run in done if run.seed_kind == "tuning"]
        test = [
            run
            for run in done
            if run.seed_kind == "test"
            and (run.budget_seconds, run.budget_env_steps) == (budget_seconds, budget_env_steps)
        ]
        if not test:
            continue
        name = f"{trial.number} (baseline)" if trial.origin == "baseline" else f"{trial.number}"
        cells = [_mean(group, metric) for metric in study.objectives for group in (tuning, test)]
        rows.append((name, f"{len(tuning)}", f"{len(test)}", *cells))
    heads = [
        f"{METRICS[metric].label}, {kind}"
        for metric in study.objectives
        for kind in ("tuning", "test")
    ]
    return Table(head=("trial", "tuning runs", "test runs", *heads), rows=tuple(rows))


def _mean(runs: Sequence[RunRow], metric: str) -> str:
    values = [value for run in runs if (value := getattr(run, metric)) is not None]
    if not values:
        return format_metric(metric, None)
    mean = format_metric(metric, sum(values) / len(values))
    interval = bootstrap([values])
    if interval is None:
        return mean
    low, high = format_metric(metric, interval.low), format_metric(metric, interval.high)
    return f"{mean} [{low}, {high}]"
