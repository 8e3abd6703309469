"""`sweeper launch`: run a study and show how it goes."""

from __future__ import annotations

import logging
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sweeper.cli.changed import explain_change
from sweeper.cli.detach import Detached
from sweeper.cli.display import make_display
from sweeper.cli.front import print_front, write_pareto_html
from sweeper.cli.logs import slug
from sweeper.cli.preflight import Plan
from sweeper.cli.reading import reading
from sweeper.core.errors import InputError
from sweeper.core.records import RunStatus
from sweeper.report.hardware import hardware_of
from sweeper.store import queries
from sweeper.store.rows import TrialRow
from sweeper.store.store import Store
from sweeper.store.versions import StudyChangedError
from sweeper.study.claim import claim_study
from sweeper.study.executor import LabelsError
from sweeper.study.launch import Launcher
from sweeper.study.placement import check_placement, needs_more_than_cores
from sweeper.study.progress import LaunchState
from sweeper.study.ray_executor import RayExecutor
from sweeper.study.spec import LoadedStudy, StudySpec, cores_at_once, load_study
from sweeper.study.travel import runtime_env
from sweeper.trial.cores import usable_cores
from sweeper.trial.queue import Place

DEFAULT_DB = "sqlite:///sweeper.db"


def launch_study(
    plan: Plan,
    file: Path,
    *,
    db: str,
    overrides: list[str],
    trials: int | None,
    new_version: bool,
) -> int:
    """Launch or continue a study; returns the exit code.

    The first Ctrl-C ends running trials gently (they are run again when the study is
    continued), the second ends everything at once.
    """
    detached, loaded = Detached.find(), plan.loaded
    target = trials or loaded.spec.stop.trials
    try:
        with ExitStack() as stack:
            executor = place = None
            # What the nodes cannot hold is refused unwritten; here, only cores are known unasked.
            if plan.cluster or needs_more_than_cores(loaded):
                executor = start_executor(loaded, plan.cluster)
                stack.callback(executor.close)
                cores = executor.largest_node_cores
                loaded = load_study(file, overrides=overrides, usable_cores=cores)
                check_placement(loaded, executor.lacking)
            store = stack.enter_context(Store.open(db))
            claim = stack.enter_context(
                claim_study(store, loaded, target_trials=target, new_version=new_version)
            )
            if detached is not None:
                detached.note(store, claim.study.study_id)
            if plan.cluster is None:
                place = stack.enter_context(line_up(loaded.spec))
            reader = stack.enter_context(reading(db))
            display = stack.enter_context(make_display(loaded.spec))
            # Not before the display is there: it keeps what is logged out of its picture.
            logging.basicConfig(format="%(message)s", level=logging.WARNING)
            if executor is None:
                executor = start_executor(loaded, None)
                stack.callback(executor.close)

            def watch(state: LaunchState) -> None:
                display.show(state)
                if detached is not None:
                    detached.tell()

            launcher = Launcher(
                loaded,
                claim,
                store,
                reader,
                executor,
                target_trials=target,
                place=place,
                watch=watch,
            )
            with interrupts(launcher):
                launcher.run()
    except StudyChangedError as error:
        raise explain_change(error, loaded.document, loaded.spec.study) from error
    option = "" if db == DEFAULT_DB else f" --db {shlex.quote(db)}"
    rows = _conclude(loaded.spec.study, db=db, option=option)
    completed = any(row.status == RunStatus.COMPLETED for row in rows)
    if launcher.stopping:
        print(f"stopped; `sweeper launch {shlex.quote(str(file))}{option}` continues it")
        return 130
    if not completed:
        reasons = [f"; trial {row.number}: {row.reason}" for row in rows if row.reason]
        print(f"sweeper: no trial completed{''.join(reasons[-1:])}", file=sys.stderr)
    return 0 if completed else 1


def _conclude(name: str, *, db: str, option: str) -> list[TrialRow]:
    """Print the front and where to see more of it; returns the trials."""
    with reading(db) as engine:
        study = queries.study(engine, name)
        rows = queries.trials(engine, study.study_id)
        hardware = hardware_of(queries.study_runs(engine, study.study_id))
    print_front(study, rows, hardware)
    plot = Path(f"{slug(study.name)}-pareto.html")
    try:
        write_pareto_html(study, rows, hardware, plot)
        print(f"plot:      {plot.resolve()}")
    except InputError as error:  # the results are safe, and `sweeper pareto` draws them anywhere
        print(f"no plot:   {error}", file=sys.stderr)
    print(f"dashboard: sweeper dashboard{option}")
    return rows


def start_executor(loaded: LoadedStudy, cluster: str | None) -> RayExecutor:
    """Where the study's trials run: on a cluster, or on a local Ray. Raises InputError."""
    asked = loaded.spec.ray
    if cluster is None:
        return RayExecutor(memory_bytes=asked.memory_bytes)
    try:
        return RayExecutor(
            cluster,
            labels=asked.labels,
            memory_bytes=asked.memory_bytes,
            runtime_env=runtime_env(loaded),
        )
    except LabelsError as error:
        raise loaded.document.error("ray.labels", f": {error}") from error


def line_up(spec: StudySpec) -> Place:
    """The study's place in the queue for this machine's cores."""
    most = cores_at_once(spec, len(usable_cores()))
    return Place(spec.study, priority=spec.priority, most=most)


@contextmanager
def interrupts(launcher: Launcher) -> Iterator[None]:
    """Ctrl-C or SIGTERM: once is gentle, twice is at once."""

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        if launcher.stopping:
            raise KeyboardInterrupt
        launcher.stop()

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
