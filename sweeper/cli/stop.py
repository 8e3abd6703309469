"""`sweeper stop`: end a launch from anywhere."""

from __future__ import annotations

import socket
import time
from dataclasses import asdict, dataclass
from typing import get_args

from sqlalchemy import Engine

from sweeper.cli.printing import print_json
from sweeper.cli.reading import reading
from sweeper.core.clock import utc_now
from sweeper.core.records import RunStatus
from sweeper.store import queries
from sweeper.store.lease import is_held
from sweeper.store.rows import LauncherRow, Stop
from sweeper.store.store import Store

POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Stopped:
    """What has become of a launch that was asked to stop."""

    study: str
    host: str
    pid: int
    stopped: bool
    """False while it goes on, and for one that died or hangs."""
    interrupted: int
    """Runs that were ended; they are run again when the study is launched again."""
    completed: int
    """Trials of the study."""
    target_trials: int | None


def stop_study(name: str, *, db: str, how: Stop, wait: bool, as_json: bool) -> int:
    """Ask, wait unless told not to, and say what happened; the exit code. Raises InputError
    where nobody launches the study."""
    with reading(db) as engine:
        study_id = queries.study(engine, name).study_id
        with Store.open(db) as store:
            launcher = store.ask_to_stop(study_id, how)
        who = f"process {launcher.pid} on {launcher.host}"
        if not as_json:
            print(f"asked {who} to stop {name!r}", flush=True)
        stopped = wait and _wait(engine, study_id, launcher)
        study = queries.study(engine, name)
        outcome = Stopped(
            study=name,
            host=launcher.host,
            pid=launcher.pid,
            stopped=stopped,
            interrupted=_interrupted(engine, study_id, launcher.launcher_id),
            completed=study.status_counts.get(RunStatus.COMPLETED, 0),
            target_trials=study.target_trials,
        )
    if as_json:
        print_json(asdict(outcome))
    elif stopped:
        of = "" if outcome.target_trials is None else f" of {outcome.target_trials}"
        print(
            f"stopped: {outcome.completed}{of} trials completed, {outcome.interrupted} "
            f"{'run' if outcome.interrupted == 1 else 'runs'} interrupted; "
            "launch it again to continue"
        )
    elif wait:
        print(f"{who} does not answer: it died, or hangs; launch the study again to continue it")
    return 1 if wait and not stopped else 0


def _wait(engine: Engine, study_id: int, launcher: LauncherRow) -> bool:
    """Whether it has ended in an orderly way, as soon as that is known."""
    while True:
        row = queries.launcher(engine, study_id)
        if row is None or row.launcher_id != launcher.launcher_id:
            return True
        if not is_held(row, host=socket.gethostname(), now=utc_now()):
            return False
        time.sleep(POLL_SECONDS)


def _interrupted(engine: Engine, study_id: int, launcher_id: str) -> int:
    """Runs that were ended since this launcher was first asked."""
    events = queries.events(engine, study_id, limit=10_000)
    asked = min(
        event.event_id
        for event in events
        if event.kind in get_args(Stop) and event.detail == launcher_id
    )
    return sum(event.kind == "interrupted" and event.event_id > asked for event in events)
