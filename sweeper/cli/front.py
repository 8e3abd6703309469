"""`sweeper pareto`: the front of a study, as a table, a plot or JSON."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from sweeper.cli.printing import print_json
from sweeper.cli.reading import reading
from sweeper.cli.table import print_table
from sweeper.core.records import RunStatus
from sweeper.report.figures import pareto_figure
from sweeper.report.hardware import Hardware, hardware_of, measured_on, mixture
from sweeper.report.metrics import format_number
from sweeper.report.pareto import study_front
from sweeper.report.quickest import find_quickest
from sweeper.report.render import write_html, write_png
from sweeper.report.tables import front_table
from sweeper.store import queries
from sweeper.store.rows import StudyRow, TrialRow
from sweeper.study.edges import study_edges
from sweeper.trial.contention import CONTENDED_SHARE


def show_pareto(
    name: str | None,
    *,
    db: str,
    html: Path | None,
    png: Path | None,
    hardware: str | None,
    as_json: bool,
) -> None:
    """Print the front of a study, or of its trials on one kind of hardware; draw it where a file
    is asked for."""
    with reading(db) as engine:
        study = queries.study(engine, name)
        trials = queries.trials(engine, study.study_id)
        runs = queries.study_runs(engine, study.study_id)
        known = hardware_of(runs)
        if hardware is not None:
            trials = measured_on(trials, known, hardware)
        quickest = find_quickest(engine, study, trials, runs)
    if png is not None:  # first, as it needs a browser: what may fail writes nothing else
        write_png(pareto_figure(study, trials), png)
    if html is not None:
        write_pareto_html(study, trials, known, html)
    if as_json:
        print_json([trial_record(trial, study, known) for trial in study_front(study, trials)])
        return
    print_front(study, trials, known)
    if quickest is not None:
        print(
            f"trial {quickest.trial.number} is as good as the baseline in "
            f"1/{format_number(quickest.result.ratio, 2)} of the time; "
            f"`sweeper speedup {shlex.quote(study.name)}` says more"
        )
    for path in filter(None, (html, png)):
        print(f"wrote {path}")


def print_front(study: StudyRow, trials: list[TrialRow], hardware: Hardware) -> None:
    """The front as a table, or why there is none."""
    table = front_table(study, trials)
    done = [trial for trial in trials if trial.status == RunStatus.COMPLETED]
    contended = sum(bool(trial.contended) for trial in done)
    if contended:
        what = (
            "all trials are too slow"
            if contended == len(done)
            else f"{contended} of {len(done)} trials are left off the front"
        )
        print(
            f"{study.name}: {what}, as others took more than "
            f"{CONTENDED_SHARE:.0%} of their cores' time; "
            "`sweeper doctor` looks for who does"
        )
    if not table.rows:
        print(f"{study.name}: no trial stands on the front yet")
        return
    if mixed := mixture(study, trials, hardware):
        print(f"{study.name}: {mixed}; `--hardware` shows one")
    title = f"{study.name}: the front, {len(table.rows)} of {len(trials)} trials"
    print_table(table.head, table.rows, title=title)
    for edge in study_edges(study, study_front(study, trials)):
        print(edge)


def write_pareto_html(
    study: StudyRow, trials: list[TrialRow], hardware: Hardware, path: Path
) -> None:
    """The self-contained plot of a study's front."""
    write_html(
        pareto_figure(study, trials),
        path,
        title=study.name,
        note=mixture(study, trials, hardware),
        table=front_table(study, trials),
    )


def trial_record(trial: TrialRow, study: StudyRow, hardware: Hardware) -> dict[str, Any]:
    """A trial of a front for programs: number, objectives, what was searched, on what."""
    return {
        "trial": trial.number,
        **{metric: getattr(trial, metric) for metric in study.objectives},
        "params": dict(trial.params),
        "hardware": sorted(hardware.get(trial.trial_id, ())),
        "n_runs": trial.n_runs,
        "n_test_runs": trial.n_test_runs,
        "test_final_return": trial.test_final_return,
        "test_steps_per_second": trial.test_steps_per_second,
    }
