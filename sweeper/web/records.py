"""What each page knows: one record a page, which its template shows and its JSON twin returns."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine

from sweeper.core.errors import DatabaseError, InputError
from sweeper.core.records import RunStatus
from sweeper.report.export import trial_yaml
from sweeper.report.metrics import (
    METRICS,
    format_metric,
    format_number,
    format_param,
    format_seconds,
    short_names,
    value_of,
)
from sweeper.report.pareto import study_front
from sweeper.report.speedup import SpeedUp, speed_up
from sweeper.report.statistics import Interval, bootstrap, interquartile_mean
from sweeper.store import queries
from sweeper.store.queries import EvaluationRow, MeasurementRow, RunRow, StudyRow, TrialRow
from sweeper.web.trial_table import TrialTable

FINISHED = tuple(status.value for status in RunStatus if status.is_final)
MAX_COMPARED = 20
"""Speed-up reads learning curves; of a longer front only the first so many are compared."""


class NotFoundError(InputError):
    """A study, trial or run that the database does not hold."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a study is."""

    finished: int
    target: int | None
    running: int
    others: tuple[tuple[str, int], ...]
    """(status in words, number of trials) of what is neither COMPLETED nor running."""
    seconds_left: float | None
    """At the pace so far; None when nothing runs or there is no target."""


@dataclass(frozen=True, slots=True)
class StudyPage:
    """The page of a study."""

    study: StudyRow
    headline: str
    speed_up: SpeedUp | None
    best: TrialRow | None
    """The trial that the headline is about: the quickest to an equal return, else the front's
    best of the first objective."""
    best_summary: str
    best_command: str
    """What reproduces it; empty without one."""
    front: tuple[int, ...]
    """Numbers of the trials on the front of the study's objectives."""
    progress: Progress
    table: TrialTable
    change_token: str


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """The evaluation episodes of one run under one kind of policy."""

    run_id: int
    seed: int
    deterministic: bool
    n_episodes: int
    interval: Interval | None
    """Mean with its 95% bootstrap interval over episodes; None for a single one."""
    interquartile_mean: float
    lowest: float
    highest: float
    mean_length: float
    n_truncated: int


@dataclass(frozen=True, slots=True)
class TrialPage:
    """The page of a trial."""

    study: StudyRow
    trial: TrialRow
    headline: str
    summary: str
    on_front: bool
    runs: tuple[RunRow, ...]
    evaluations: tuple[EvaluationSummary, ...]
    config_yaml: str
    command: str
    """What reproduces the trial."""
    change_token: str


def find_study(engine: Engine, name: str) -> StudyRow:
    """The study of that name. Raises NotFoundError."""
    try:
        # PostgreSQL refuses NUL in a string, and no name holds one.
        return queries.study(engine, name.replace("\0", "\N{REPLACEMENT CHARACTER}"))
    except DatabaseError:
        raise
    except InputError as error:
        raise NotFoundError(str(error)) from error


def find_trial(engine: Engine, study: StudyRow, number: int) -> TrialRow:
    """A study's trial by its number. Raises NotFoundError."""
    try:
        return queries.trial(engine, study.study_id, number)
    except DatabaseError:
        raise
    except InputError as error:
        raise NotFoundError(str(error)) from error


def study_page(
    engine: Engine,
    study: StudyRow,
    trials: Sequence[TrialRow],
    *,
    table: TrialTable,
    now: datetime,
    change_token: str,
) -> StudyPage:
    """Everything that the page of a study shows, apart from its figures."""
    best_first = study_front(study, trials)
    quickest = _quickest(engine, trials, best_first[:MAX_COMPARED])
    best = quickest[0] if quickest else (best_first[0] if best_first else None)
    return StudyPage(
        study=study,
        headline=_headline(study, trials, best_first, quickest),
        speed_up=quickest[1] if quickest else None,
        best=best,
        best_summary=configuration_summary(best) if best else "",
        best_command=reproducing_command(study, best) if best else "",
        front=tuple(trial.number for trial in best_first),
        progress=progress(study, trials, now=now),
        table=table,
        change_token=change_token,
    )


def trial_page(engine: Engine, study: StudyRow, trial: TrialRow, *, front: bool) -> TrialPage:
    """Everything that the page of a trial shows, apart from its figures."""
    runs = tuple(queries.runs(engine, trial.trial_id))
    shown = dict.fromkeys((*study.objectives, "final_return", "steps_per_second"))
    measured = [
        f"{METRICS[m].title} {format_metric(m, value)}"
        + (f" {METRICS[m].unit}" if METRICS[m].unit else "")
        for m in shown
        if (value := value_of(trial, m)) is not None
    ]
    return TrialPage(
        study=study,
        trial=trial,
        headline=", ".join(measured) or (trial.reason or "Nothing has been measured yet."),
        summary=configuration_summary(trial),
        on_front=front,
        runs=runs,
        evaluations=tuple(
            summary
            for run in runs
            for summary in evaluation_summaries(run, queries.evaluations(engine, run.run_id))
        ),
        config_yaml=trial_yaml(study, trial),
        command=reproducing_command(study, trial),
        change_token=queries.change_token(engine, study.study_id),
    )


def reproducing_command(study: StudyRow, trial: TrialRow) -> str:
    """The shell's words for training the trial again."""
    file = f"trial-{trial.number}.yaml"
    export = f"sweeper export {shlex.quote(study.name)} --trial {trial.number}"
    return f"{export} > {file} && sweeper run {file}"


def progress(study: StudyRow, trials: Sequence[TrialRow], *, now: datetime) -> Progress:
    """Counts by status, and the time left at the pace so far."""
    counts = study.status_counts
    finished = sum(counts.get(status, 0) for status in FINISHED)
    running = counts.get("RUNNING", 0)
    left = None
    if study.target_trials and running and finished and trials:
        began = min(trial.asked_at for trial in trials)
        pace = (now - began).total_seconds() / finished
        left = max(0.0, pace * (study.target_trials - finished))
    others = (*(s for s in FINISHED if s != "COMPLETED"), "QUEUED")
    return Progress(
        finished=finished,
        target=study.target_trials,
        running=running,
        others=tuple((s.lower(), counts[s]) for s in others if counts.get(s)),
        seconds_left=left,
    )


def configuration_summary(trial: TrialRow) -> str:
    """One line: learner, optimizer, schedule, how environments are spread, what was searched."""
    workers = f"{trial.n_workers} worker{'s' if trial.n_workers != 1 else ''}"
    words = [
        trial.algorithm,
        trial.optimizer,
        trial.schedule,
        f"{trial.n_envs} envs" + (f" / {workers}" if trial.n_workers else f", {trial.vec_env}"),
    ]
    said = ("n_envs", "kind", "n_workers", "vec_env")
    names = short_names(list(trial.params))
    words += [
        f"{names[path]} {format_param(value)}"
        for path, value in trial.params.items()
        if path.rsplit(".", 1)[-1] not in said
    ]
    return ", ".join(words)


def evaluation_summaries(
    run: RunRow, episodes: Sequence[EvaluationRow]
) -> tuple[EvaluationSummary, ...]:
    """One summary for each kind of policy that was evaluated, deterministic first."""
    result = []
    for deterministic in (True, False):
        chosen = [e for e in episodes if e.deterministic is deterministic]
        returns = [e.episode_return for e in chosen]
        if not returns:
            continue
        result.append(
            EvaluationSummary(
                run_id=run.run_id,
                seed=run.seed,
                deterministic=deterministic,
                n_episodes=len(returns),
                interval=bootstrap([returns]),
                interquartile_mean=float(interquartile_mean(returns)),
                lowest=min(returns),
                highest=max(returns),
                mean_length=sum(e.length for e in chosen) / len(chosen),
                n_truncated=sum(e.truncated for e in chosen),
            )
        )
    return tuple(result)


def _quickest(
    engine: Engine, trials: Sequence[TrialRow], candidates: Sequence[TrialRow]
) -> tuple[TrialRow, SpeedUp] | None:
    """The candidate that is soonest as good as the baseline; None without such a baseline."""
    baseline = next((t for t in trials if t.origin == "baseline" and t.status == "COMPLETED"), None)
    if baseline is None:
        return None
    reference = _curves(engine, baseline)
    found = [
        (trial, result)
        for trial in candidates
        if trial.trial_id != baseline.trial_id
        and (result := speed_up(reference, _curves(engine, trial))) is not None
    ]
    return max(found, key=lambda pair: pair[1].ratio, default=None)


def _curves(engine: Engine, trial: TrialRow) -> list[Sequence[MeasurementRow]]:
    return [
        queries.measurements(engine, run.run_id)
        for run in queries.runs(engine, trial.trial_id)
        if run.status == "COMPLETED"
    ]


def _headline(
    study: StudyRow,
    trials: Sequence[TrialRow],
    best_first: Sequence[TrialRow],
    quickest: tuple[TrialRow, SpeedUp] | None,
) -> str:
    if quickest and quickest[1].ratio > 1:
        trial, result = quickest
        seeds = f"{result.n_runs} seed{'s' if result.n_runs != 1 else ''}"
        return (
            f"As good as the baseline in 1/{format_number(result.ratio, 2)} of the time: trial "
            f"{trial.number} reaches a training return of {format_number(result.target_return)} "
            f"after {format_seconds(result.seconds)}, the baseline after "
            f"{format_seconds(result.baseline_seconds)} ({seeds})"
        )
    if not best_first:
        if not trials:
            return "No trial has been asked for yet."
        if any(trial.status == "COMPLETED" for trial in trials):
            return "No completed trial is feasible yet."
        return "No trial has completed yet."
    best = best_first[0]
    count = f"{len(best_first)} configuration{'s' if len(best_first) > 1 else ''}"
    measured = ", ".join(
        f"{METRICS[m].title} {format_metric(m, value_of(best, m))}"
        + (f" {METRICS[m].unit}" if METRICS[m].unit else "")
        for m in study.objectives
    )
    return f"{count} of {len(trials)} on the front; trial {best.number} leads it: {measured}"
