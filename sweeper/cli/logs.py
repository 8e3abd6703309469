"""`sweeper logs`: what a detached launcher says."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Engine

from sweeper.cli.reading import reading
from sweeper.core.clock import utc_now
from sweeper.core.errors import InputError
from sweeper.core.state import state_folder
from sweeper.store import launches, queries

POLL_SECONDS = 0.2


def new_log(study: str) -> Path:
    """A file for a launch of the study, in the folder that the user's programs keep such in."""
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{slug(study)}-{utc_now():%Y%m%d-%H%M%S}-{os.getpid()}.log"


def lock_log(path: Path) -> None:
    """Hold the log until the death of this process: so long somebody writes it."""
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)


def slug(name: str) -> str:
    """A file name from a study's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "study"


def show_log(name: str | None, *, db: str, lines: int | None, follow: bool) -> None:
    """Print the last `lines` of the log of the study's last detached launch, or all of it; to
    `follow` it goes on until its launcher has ended. Raises InputError if it is not here."""
    with reading(db) as engine:
        study = queries.study(engine, name)
        path = _find(engine, study.study_id, study.name)
    with path.open("rb") as file:
        _write(b"".join(deque(file, maxlen=lines)))
        while follow:
            follow = _is_written(file)  # before its last words are read
            _write(file.read())
            time.sleep(POLL_SECONDS if follow else 0.0)


def _find(engine: Engine, study_id: int, name: str) -> Path:
    place = launches.log_of(engine, study_id)
    if place is None:
        raise InputError(f"study {name!r} has no log: it was never launched with --detach")
    host, path = place
    if host != socket.gethostname():
        raise InputError(f"the log of study {name!r} is on {host}: {path}")
    if not Path(path).exists():
        raise InputError(f"the log of study {name!r} is gone: {path}")
    return Path(path)


def _is_written(log: BinaryIO) -> bool:
    try:
        fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(log, fcntl.LOCK_UN)
    return False


def _write(text: bytes) -> None:
    sys.stdout.write(text.decode(errors="replace"))
    sys.stdout.flush()
