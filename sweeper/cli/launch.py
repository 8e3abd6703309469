"""`sweeper launch`: run a study and show how it goes."""

from __future__ import annotations

import logging
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from sweeper.cli.check import check_environment
from sweeper.cli.display import make_display
from sweeper.cli.results import print_front, write_pareto_html
from sweeper.core.records import RunStatus
from sweeper.store import queries
from sweeper.store.store import Store
from sweeper.study.launch import Launcher, claim_study
from sweeper.study.ray_executor import RayExecutor
from sweeper.study.spec import load_study


def launch_study(
    file: Path,
    *,
    db: str,
    overrides: list[str],
    trials: int | None,
    new_version: bool,
    ray_address: str | None,
) -> int:
    """Launch or continue a study; returns the exit code.

    The first Ctrl-C ends running trials gently (they are run again when the study is
    continued), the second ends everything at once.
    """
    loaded = load_study(file, overrides=overrides)
    check_environment(loaded.spec, loaded.document)
    target = trials or loaded.spec.stop.trials
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    with (
        Store.open(db) as store,
        claim_study(store, loaded, target_trials=target, new_version=new_version) as claim,
    ):
        reader = queries.open_reader(db)
        executor = RayExecutor(ray_address or loaded.spec.ray.address)
        display = make_display(loaded.spec)
        try:
            loaded = load_study(file, overrides=overrides, usable_cores=executor.largest_node_cores)
            launcher = Launcher(
                loaded, claim, store, reader, executor, target_trials=target, watch=display.show
            )
            with _interrupts(launcher), display:
                launcher.run()
        finally:
            executor.close()
    study = queries.study(reader, loaded.spec.study)
    rows = queries.trials(reader, study.study_id)
    reader.dispose()
    print_front(study, rows)
    plot = Path(f"{_slug(study.name)}-pareto.html")
    write_pareto_html(study, rows, plot)
    typer.echo(f"plot:      {plot.resolve()}")
    option = "" if db == "sqlite:///sweeper.db" else f" --db {shlex.quote(db)}"
    typer.echo(f"dashboard: sweeper dashboard{option}")
    if launcher.stopping:
        typer.echo(f"stopped; `sweeper launch {shlex.quote(str(file))}{option}` continues it")
        return 130
    return 0 if any(row.status == RunStatus.COMPLETED for row in rows) else 1


@contextmanager
def _interrupts(launcher: Launcher) -> Iterator[None]:
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


def _slug(name: str) -> str:
    """A file name from a study's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "study"
