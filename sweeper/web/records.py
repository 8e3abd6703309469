"""What each page knows: one record a page, which its template shows and its JSON twin returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine

from sweeper.core.errors import DatabaseError, InputError
from sweeper.report.anytime import Anytime
from sweeper.report.compare import MOST, Difference, Measured, differences, measured
from sweeper.report.export import trial_yaml
from sweeper.report.hardware import hardware_of, mixture
from sweeper.report.metrics import METRICS, format_metric, value_of
from sweeper.report.pareto import study_front
from sweeper.report.peers import PEERS, peer_steps
from sweeper.report.quickest import find_quickest, left_out
from sweeper.report.shortfalls import shortfalls
from sweeper.report.speedup import SpeedUp
from sweeper.report.statistics import Interval, bootstrap, interquartile_mean
from sweeper.store import queries
from sweeper.store.rows import EvaluationRow, EventRow, RunRow, StudyRow, TrialRow
from sweeper.trial.spec import TrialSpec
from sweeper.web.headline import (
    comparison_headline,
    configuration_summary,
    evidence,
    reproducing_command,
    study_headline,
)
from sweeper.web.progress import Progress, launch_state, next_step, progress
from sweeper.web.results import Results, StudyData
from sweeper.web.trial_table import TrialTable


class NotFoundError(InputError):
    """A study, trial or run that the database does not hold."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limited some of the trials."""

    bottleneck: str
    n_trials: int
    share: float
    """Of the trials whose bottleneck is known."""


@dataclass(frozen=True, slots=True)
class StudyOverview:
    """A study's line on the page of all studies."""

    study: StudyRow
    front: tuple[int, ...]
    best: TrialRow | None
    """The front's best of the first objective."""
    state: str
    """running | finished | stopped | its launcher died."""
    progress: Progress


@dataclass(frozen=True, slots=True)
class StudyPage:
    """The page of a study."""

    study: StudyRow
    headline: str
    evidence: str
    """What the headline rests on; empty where it says so itself."""
    hardware: str
    """That different hardware is compared, and which; empty where it is of one kind."""
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
    state: str
    """running | finished | stopped | its launcher died."""
    next_step: str
    """What to do about the state; empty where there is nothing to do."""
    limits: tuple[Limit, ...]
    """The commonest first."""
    anytime: Anytime
    has_importances: bool
    events: tuple[EventRow, ...]
    """The latest, newest first."""
    numbers: Mapping[int, int]
    """trial_id -> number, of the trials that the events name."""
    table: TrialTable
    intervals: Mapping[int, Mapping[str, Interval]]
    """Trial number -> metric -> interval over its seeds, for trials of the table with several."""
    change_token: str


@dataclass(frozen=True, slots=True)
class ComparePage:
    """Two to six trials side by side."""

    study: StudyRow
    trials: tuple[TrialRow, ...]
    headline: str
    measured: tuple[Measured, ...]
    differences: tuple[Difference, ...]
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
    shortfalls: tuple[str, ...]
    """Why it may not stand there, if it may not."""
    runs: tuple[RunRow, ...]
    evaluations: tuple[EvaluationSummary, ...]
    config_yaml: str
    peers: Mapping[str, str]
    """Name of a peer -> the configuration in its words; empty where it has none for it."""
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
    results: Results, study: StudyRow, data: StudyData, *, table: TrialTable, now: datetime
) -> StudyPage:
    """Everything that the page of a study shows, apart from its figures."""
    trials = data.trials
    best_first = study_front(study, trials)
    quickest = find_quickest(results.engine, study, trials, data.runs)
    best = quickest.trial if quickest else (best_first[0] if best_first else None)
    held_by, alive = results.launcher(study.study_id)
    reached = progress(study, trials, now=now, alive=alive)
    events = tuple(queries.events(results.engine, study.study_id, limit=50))
    spreads = results.certainty(study, data, tuple(study.objectives)).spreads
    return StudyPage(
        study=study,
        headline=study_headline(study, trials, best_first, quickest),
        evidence=evidence(quickest, left_out(study, trials, data.runs)),
        hardware=mixture(study, trials, hardware_of(data.runs)),
        speed_up=quickest.result if quickest else None,
        best=best,
        best_summary=configuration_summary(best) if best else "",
        best_command=reproducing_command(study, best) if best else "",
        front=tuple(trial.number for trial in best_first),
        progress=reached,
        state=launch_state(reached, held_by, alive=alive),
        next_step=next_step(reached, held_by, alive=alive),
        limits=limits(trials),
        anytime=results.anytime(study, data),
        has_importances=bool(queries.importances(results.engine, study.study_id)),
        events=events,
        numbers={
            trial.trial_id: trial.number
            for trial in trials
            if trial.trial_id in {event.trial_id for event in events}
        },
        table=table,
        intervals={t.number: spreads[t.number] for t in table.trials if t.number in spreads},
        change_token=results.token(study.study_id),
    )


def study_overview(results: Results, study: StudyRow, *, now: datetime) -> StudyOverview:
    """A study's line on the page of all studies."""
    data = results.data(study.study_id)
    held_by, alive = results.launcher(study.study_id)
    reached = progress(study, data.trials, now=now, alive=alive)
    front = study_front(study, data.trials)
    return StudyOverview(
        study=study,
        front=tuple(trial.number for trial in front),
        best=front[0] if front else None,
        state=launch_state(reached, held_by, alive=alive),
        progress=reached,
    )


def compare_page(results: Results, study: StudyRow, numbers: Sequence[int]) -> ComparePage:
    """Raises InputError for fewer than two trials or more than can be told apart."""
    if not 2 <= len(numbers) <= MOST:
        raise InputError(f"two to {MOST} trials can be compared, {len(numbers)} were given")
    data = results.data(study.study_id)
    by_number = {trial.number: trial for trial in data.trials}
    trials = tuple(
        by_number.get(number) or find_trial(results.engine, study, number) for number in numbers
    )
    spreads = results.certainty(study, data, tuple(study.objectives)).spreads
    return ComparePage(
        study=study,
        trials=trials,
        headline=comparison_headline(study, trials),
        measured=measured(study, trials, spreads),
        differences=differences(trials),
        change_token=results.token(study.study_id),
    )


def limits(trials: Sequence[TrialRow]) -> tuple[Limit, ...]:
    """How many of the trials each bottleneck limited."""
    known = Counter(trial.bottleneck for trial in trials if trial.bottleneck)
    total = known.total()
    return tuple(Limit(name, count, count / total) for name, count in known.most_common())


def trial_page(results: Results, study: StudyRow, trial: TrialRow, *, front: bool) -> TrialPage:
    """Everything that the page of a trial shows, apart from its figures."""
    engine = results.engine
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
        headline=", ".join(measured)
        or (f"{trial.status.lower()}: {trial.reason}" if trial.reason else "")
        or "Nothing has been measured yet.",
        summary=configuration_summary(trial),
        on_front=front,
        shortfalls=tuple(shortfalls(study, trial, queries.violations(engine, trial.trial_id))),
        runs=runs,
        evaluations=tuple(
            summary
            for run in runs
            for summary in evaluation_summaries(run, queries.evaluations(engine, run.run_id))
        ),
        config_yaml=trial_yaml(study, trial),
        peers=_peers(trial),
        command=reproducing_command(study, trial),
        change_token=results.token(study.study_id),
    )


def _peers(trial: TrialRow) -> dict[str, str]:
    spec = TrialSpec.model_validate_json(trial.config_json)
    result = {}
    for name, export in PEERS.items():
        try:
            result[name] = export(spec, env_steps=peer_steps(trial))
        except InputError as error:
            result[name] = f"# {error}\n"
    return result


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
