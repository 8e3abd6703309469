"""What a page says first: its headline, what that rests on, and how to repeat the best trial."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sweeper.report.metrics import (
    METRICS,
    format_metric,
    format_number,
    format_param,
    format_seconds,
    short_names,
    value_of,
)
from sweeper.report.quickest import Quickest, left_out_note
from sweeper.store.rows import StudyRow, TrialRow


def study_headline(
    study: StudyRow,
    trials: Sequence[TrialRow],
    best_first: Sequence[TrialRow],
    quickest: Quickest | None,
) -> str:
    """The answer of a study in one sentence, or what is still missing for one."""
    if quickest and quickest.result.ratio > 1:
        result = quickest.result
        seeds = f"{result.n_runs} {quickest.seed_kind} seed{'s' if result.n_runs != 1 else ''}"
        if result.low is not None and result.high is not None:
            sure = (
                f"95%: {format_number(result.low, 2)} to {format_number(result.high, 2)}, {seeds}"
            )
        else:
            few = seeds if result.n_runs == 1 else "one run of the baseline"
            sure = f"{few}, so without an interval"
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


def evidence(quickest: Quickest | None, left_out: Sequence[TrialRow]) -> str:
    """What the headline rests on, and which trials it had to leave out; empty where there is
    nothing to compare with the baseline."""
    sentences = []
    if quickest is not None:
        result = quickest.result
        own = ", on a budget of its own," if quickest.has_other_budget else ""
        both = f", both on {quickest.hardware}" if quickest.hardware else ""
        sentences.append(
            f"Trial {quickest.trial.number} reaches a training return of "
            f"{format_number(result.target_return)} after {format_seconds(result.seconds)}, "
            f"the baseline{own} after {format_seconds(result.baseline_seconds)}{both}."
        )
    if note := left_out_note(left_out):
        sentences.append(f"{note}.")
    return " ".join(sentences)


def comparison_headline(study: StudyRow, trials: Sequence[TrialRow]) -> str:
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


def configuration_summary(trial: TrialRow) -> str:
    """One line: learner, optimizer, schedule, how environments are spread, what was searched."""
    workers = f"{trial.n_workers} worker{'s' if trial.n_workers != 1 else ''}"
    words = [
        trial.algorithm,
        *filter(None, (trial.optimizer, trial.schedule)),
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


def reproducing_command(study: StudyRow, trial: TrialRow) -> str:
    """The shell's words for training the trial again."""
    file = f"trial-{trial.number}.yaml"
    export = f"sweeper export {shlex.quote(study.name)} --trial {trial.number}"
    return f"{export} > {file} && sweeper run {file}"
