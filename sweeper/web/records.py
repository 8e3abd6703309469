"""What each page knows: one record a page, which its template shows and its JSON twin returns."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine

from sweeper.core.errors import DatabaseError, InputError
from sweeper.core.records import RunStatus
from sweeper.report.anytime import Anytime
from sweeper.report.compare import MOST, Difference, Measured, differences, measured
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
from sweeper.report.peers import PEERS, peer_steps
from sweeper.report.speedup import SpeedUp, speed_up
from sweeper.report.statistics import Interval, bootstrap, interquartile_mean
from sweeper.store import queries
from sweeper.store.queries import (
    EvaluationRow,
    EventRow,
    LauncherRow,
    RunRow,
    StudyRow,
    TrialRow,
)
from sweeper.trial.spec import TrialSpec
from sweeper.web.results import Results, StudyData
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
    """RUNNING ones whose launcher lives."""
    abandoned: int
    """RUNNING ones that a dead launcher left; the next launch makes them LOST."""
    others: tuple[tuple[str, int], ...]
    """(status in words, number of trials) of what is neither COMPLETED nor running."""
    seconds_left: float | None
    """At the pace so far; None when nothing runs or there is no target."""


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
    quickest = _quickest(results.engine, trials, best_first[:MAX_COMPARED])
    best = quickest.trial if quickest else (best_first[0] if best_first else None)
    held_by, alive = results.launcher(study.study_id)
    reached = progress(study, trials, now=now, alive=alive)
    events = tuple(queries.events(results.engine, study.study_id, limit=50))
    spreads = results.certainty(study, data, tuple(study.objectives)).spreads
    return StudyPage(
        study=study,
        headline=_headline(study, trials, best_first, quickest),
        evidence=_evidence(quickest),
        speed_up=quickest.result if quickest else None,
        best=best,
        best_summary=configuration_summary(best) if best else "",
        best_command=reproducing_command(study, best) if best else "",
        front=tuple(trial.number for trial in best_first),
        progress=reached,
        state=launch_state(reached, held_by, alive=alive),
        next_step=_next_step(reached, held_by, alive=alive),
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
        headline=_comparison(study, trials),
        measured=measured(study, trials, spreads),
        differences=differences(trials),
        change_token=results.token(study.study_id),
    )


def limits(trials: Sequence[TrialRow]) -> tuple[Limit, ...]:
    """How many of the trials each bottleneck limited."""
    known = Counter(trial.bottleneck for trial in trials if trial.bottleneck)
    total = known.total()
    return tuple(Limit(name, count, count / total) for name, count in known.most_common())


def launch_state(reached: Progress, held_by: LauncherRow | None, *, alive: bool) -> str:
    """Whether anybody works on the study."""
    if alive:
        return "running"
    if reached.target and reached.finished >= reached.target and not reached.abandoned:
        return "finished"
    return "its launcher died" if held_by or reached.abandoned else "stopped"


def _next_step(reached: Progress, held_by: LauncherRow | None, *, alive: bool) -> str:
    if alive or launch_state(reached, held_by, alive=alive) == "finished":
        return ""
    who = f" (process {held_by.pid} on {held_by.host})" if held_by else ""
    words = "Type `sweeper launch` with its file again to continue it"
    if held_by or reached.abandoned:
        return f"Its launcher{who} is gone. {words}; what it left running is made up for."
    return f"Nobody works on it now. {words}."


def _comparison(study: StudyRow, trials: Sequence[TrialRow]) -> str:
    """Which of them is best by each objective."""
    words = []
    for metric, direction in study.objectives.items():
        known = [(v, t.number) for t in trials if (v := value_of(t, metric)) is not None]
        if known:
            value, number = (max if direction == "maximize" else min)(known)
            unit = f" {METRICS[metric].unit}" if METRICS[metric].unit else ""
            words.append(
                f"trial {number} has the best {METRICS[metric].title}, "
                f"{format_metric(metric, value)}{unit}"
            )
    text = "; ".join(words) or "none of these trials has been measured yet"
    return text[0].upper() + text[1:]


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


def reproducing_command(study: StudyRow, trial: TrialRow) -> str:
    """The shell's words for training the trial again."""
    file = f"trial-{trial.number}.yaml"
    export = f"sweeper export {shlex.quote(study.name)} --trial {trial.number}"
    return f"{export} > {file} && sweeper run {file}"


def progress(
    study: StudyRow, trials: Sequence[TrialRow], *, now: datetime, alive: bool
) -> Progress:
    """Counts by status, and the time left at the pace so far. alive: whether its launcher is."""
    counts = study.status_counts
    finished = sum(counts.get(status, 0) for status in FINISHED)
    running = counts.get("RUNNING", 0) if alive else 0
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
        abandoned=counts.get("RUNNING", 0) - running,
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


@dataclass(frozen=True, slots=True)
class _Quickest:
    """The trial that is soonest as good as the baseline."""

    trial: TrialRow
    result: SpeedUp
    seed_kind: str
    """Whose curves were compared."""


def _quickest(
    engine: Engine, trials: Sequence[TrialRow], candidates: Sequence[TrialRow]
) -> _Quickest | None:
    """Of the candidates and of the trials with test seeds; None without a baseline to compare.

    Trials that have been run with test seeds are compared by those alone: the quickest of many
    on the seeds of the search is partly the luckiest. Only without any do tuning seeds count.
    """
    baseline = next((t for t in trials if t.origin == "baseline" and t.status == "COMPLETED"), None)
    if baseline is None:
        return None
    tested = [trial for trial in trials if trial.n_test_runs and trial is not baseline]
    rows = list({t.trial_id: t for t in (*tested, *candidates) if t is not baseline}.values())
    curves = queries.curves(engine, [baseline.trial_id, *(t.trial_id for t in rows)])
    for kind in ("test", "tuning"):
        of_kind = {
            trial_id: [curve for curve in runs if curve[0].seed_kind == kind]
            for trial_id, runs in curves.items()
        }
        reference = of_kind.get(baseline.trial_id) or curves.get(baseline.trial_id, [])
        found = [
            _Quickest(trial, result, kind)
            for trial in rows
            if (result := speed_up(reference, of_kind.get(trial.trial_id, []))) is not None
        ]
        if found:
            return max(found, key=lambda each: each.result.ratio)
    return None


def _evidence(quickest: _Quickest | None) -> str:
    if quickest is None:
        return ""
    result = quickest.result
    return (
        f"Trial {quickest.trial.number} reaches a training return of "
        f"{format_number(result.target_return)} after {format_seconds(result.seconds)}, "
        f"the baseline after {format_seconds(result.baseline_seconds)}."
    )


def _headline(
    study: StudyRow,
    trials: Sequence[TrialRow],
    best_first: Sequence[TrialRow],
    quickest: _Quickest | None,
) -> str:
    if quickest and quickest.result.ratio > 1:
        result = quickest.result
        seeds = f"{result.n_runs} {quickest.seed_kind} seed{'s' if result.n_runs != 1 else ''}"
        if result.low is not None and result.high is not None:
            sure = (
                f"95%: {format_number(result.low, 2)} to {format_number(result.high, 2)}, {seeds}"
            )
        else:
            sure = f"{seeds}, so without an interval"
        share = f"1/{format_number(result.ratio, 2)}"
        return f"As good as the baseline in {share} of the time ({sure})"
    if not best_first:
        if not trials:
            return "No trial has been asked for yet."
        done = [trial for trial in trials if trial.status == "COMPLETED"]
        if done:
            return "No completed trial is feasible yet."
        return "No trial has completed yet."
    best = best_first[0]
    count = f"{len(best_first)} configuration{'s' if len(best_first) > 1 else ''}"
    measured = ", ".join(
        f"{METRICS[m].title} {format_metric(m, value_of(best, m))}"
        + (f" {METRICS[m].unit}" if METRICS[m].unit else "")
        for m in study.objectives
    )
    disturbed = (
        "; other work on the cores disturbed every trial, so all speeds are too low "
        "(`sweeper doctor` looks for who does it)"
        if best.contended
        else ""
    )
    leads = f"trial {best.number} leads it: {measured}"
    return f"{count} of {len(trials)} on the front; {leads}{disturbed}"
