"""`sweeper launch --detach`: a launcher that outlives its terminal, and the start of it.

The launcher is this command again, in a session of its own, with a log for its terminal. It
writes a byte to a pipe once it runs; a launcher that fails before closes the pipe without.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sweeper.cli.logs import lock_log, new_log
from sweeper.store.rows import LOG
from sweeper.store.store import Store

DEFAULT_DB = "sqlite:///sweeper.db"
VARIABLE = "SWEEPER_DETACHED"
"""Environment variable of a detached launcher: `descriptor:path` of its pipe and its log."""


def launch_arguments(
    file: Path,
    *,
    overrides: Sequence[str],
    trials: int | None,
    new_version: bool,
    ray_address: str | None,
    no_wait: bool,
) -> list[str]:
    """The command line that launches the same here and now, but for the database."""
    arguments = ["launch", *(f"--set={override}" for override in overrides)]
    if trials is not None:
        arguments.append(f"--trials={trials}")
    if ray_address is not None:
        arguments.append(f"--ray-address={ray_address}")
    arguments += ["--new-version"] * new_version + ["--no-wait"] * no_wait
    return [*arguments, "--", str(file)]


def detach(study: str, arguments: Sequence[str], *, db: str) -> int:
    """Start `sweeper ARGUMENTS`, which launches the study, and return once it runs: 0, or the
    exit code of what failed, whose words are printed."""
    log = new_log(study)
    hears, tells = os.pipe()
    with log.open("xb") as file:
        process = subprocess.Popen(  # noqa: S603 - this very command
            [sys.executable, "-P", "-m", "sweeper", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the terminal's end does not reach it, nor its Ctrl-C
            pass_fds=(tells,),
            # Not among the arguments, which everybody may read: a URL may hold a password.
            env=os.environ | {VARIABLE: f"{tells}:{log}", "SWEEPER_DB": db},
        )
    os.close(tells)
    try:
        runs = os.read(hears, 1)
    except KeyboardInterrupt:
        process.terminate()
        raise
    finally:
        os.close(hears)
    if not runs:
        code = process.wait()
        sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
        log.unlink()
        return code if code >= 0 else 128 - code
    process.returncode = 0  # it is meant to outlive this one
    is_known = db in (DEFAULT_DB, os.environ.get("SWEEPER_DB"))
    name, option = shlex.quote(study), "" if is_known else f" --db {shlex.quote(db)}"
    print(f"launched {study!r}, process {process.pid}")
    print(f"log:    {log}")
    print(f"follow: sweeper logs {name} -f{option}")
    print(f"stop:   sweeper stop {name}{option}")
    return 0


class Detached:
    """This launcher's end of it."""

    def __init__(self, descriptor: int, log: str) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._log = log
        lock_log(Path(log))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    @classmethod
    def find(cls) -> Detached | None:
        """What the environment says, once: what this process starts is not detached."""
        descriptor, _, log = os.environ.pop(VARIABLE, "").partition(":")
        return cls(int(descriptor), log) if log else None

    def note(self, store: Store, study_id: int) -> None:
        """Store where the log is, for `sweeper logs`."""
        store.add_event(LOG, study_id=study_id, detail=f"{socket.gethostname()}:{self._log}")

    def tell(self) -> None:
        """Say that the study runs; safe to call twice."""
        if self._descriptor >= 0:
            with suppress(BrokenPipeError):  # whoever wanted to know has gone
                os.write(self._descriptor, b"\n")
            os.close(self._descriptor)
            self._descriptor = -1
