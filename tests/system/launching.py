"""A study launched as its user launches it: the real command, real Ray, real signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import psutil
import pytest
from ruamel.yaml import YAML

from sweeper.core.errors import SweeperError
from sweeper.store.queries import open_reader
from sweeper.store.sql import run_sql
from sweeper.study import reaper
from sweeper.trial.cores import LEASES, lease_cores, usable_cores

COMMAND = str(Path(sys.executable).parent / "sweeper")
PATIENCE_SECONDS = 60.0
"""For what takes seconds on an idle machine."""

STUDY: dict[str, Any] = {
    "study": "matching",
    "stop": {"trials": 4},
    "replicate": {"share": 0},
    "must_learn": False,
    "trial": {
        "env": {"make": "worlds:Matching"},
        "algorithm": {"kind": "ppo", "n_steps": 16, "n_minibatches": 2, "n_epochs": 1},
        "parallelism": {"vec_env": "subproc", "n_envs": 4},
        "budget": {"seconds": 1},
        "evaluation": {"episodes": 2},
    },
    "search": {
        "algorithm.optimizer.learning_rate": {
            "kind": "float",
            "low": 1e-4,
            "high": 1e-2,
            "log": True,
        },
    },
}

T = TypeVar("T")


def eventually(condition: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """The first true value of `condition`, asked again and again for at most `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {condition}"
        time.sleep(0.02)
    return value


@dataclass
class Command:
    """One `sweeper` command that runs, or has run; its outputs are files."""

    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, seconds: float = 2 * PATIENCE_SECONDS) -> int:
        """Its exit code, as a shell would have it."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it did not end within {seconds:g} s:\n{self.text}")
        return code if code >= 0 else 128 - code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def signal_group(self, number: signal.Signals) -> None:
        """As the terminal does: to all processes of the foreground group."""
        os.killpg(self.pid, number)

    @property
    def text(self) -> str:
        """All that its user saw."""
        return self.stdout.read_text() + self.stderr.read_text()


@dataclass
class World:
    """A folder with a study file, a database and core leases of its own."""

    folder: Path
    url: str
    commands: list[Command] = field(default_factory=list)

    @property
    def leases(self) -> str:
        """Folder of core leases of its own, so that other studies are not waited for. As an
        environment variable it also marks every process that descends from a command."""
        return str(self.folder / "leases")

    @property
    def environment(self) -> dict[str, str]:
        """What commands find there, besides what is there."""
        state = str(self.folder / "state")
        return {"SWEEPER_DB": self.url, LEASES: self.leases, "XDG_STATE_HOME": state}

    @property
    def spooled(self) -> str:
        """What waits for the database, as text."""
        files = (self.folder / "state" / "sweeper" / "spool").glob("*")
        return "".join(path.read_text() for path in files)

    def study(self, name: str = "study.yaml", **changes: Any) -> Path:
        """Write the study file; keys of `trial` replace those of STUDY one by one."""
        trial = {**STUDY["trial"], **changes.pop("trial", {})}
        path = self.folder / name
        with path.open("w") as file:
            YAML(typ="safe", pure=True).dump({**STUDY, **changes, "trial": trial}, file)
        return path

    def start(self, *arguments: str, **popen: Any) -> Command:
        """Start `sweeper ARGUMENTS` in the folder, in a process group of its own."""
        n = len(self.commands)
        stdout, stderr = (self.folder / f"{n}-{kind}.txt" for kind in ("stdout", "stderr"))
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = subprocess.Popen(
                [COMMAND, *arguments],
                **{
                    "cwd": self.folder,
                    "env": os.environ | self.environment,
                    "stdin": subprocess.DEVNULL,
                    "stdout": out,
                    "stderr": err,
                    "start_new_session": True,
                    **popen,
                },
            )
        self.commands.append(Command(process, stdout, stderr))
        return self.commands[-1]

    def launch(self) -> Command:
        return self.start("launch", "study.yaml")

    def waiting_study(self, name: str = "study.yaml", **changes: Any) -> Path:
        """Write a study whose training goes on until the file that is returned is gone."""
        stone = self.folder / f"{name}.stone"
        stone.touch()
        env = {"make": "worlds:Waiting", "kwargs": {"file": str(stone)}}
        self.study(name, **changes, trial={"env": env, "budget": {"env_steps": 640}})
        return stone

    def status(self, study: str) -> dict[str, Any]:
        """What `sweeper status --json` says of it; {} while it is not known."""
        command = self.start("status", study, "--json")
        if command.wait() != 0:
            return {}
        (status,) = json.loads(command.stdout.read_text())
        return dict(status)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """The answer to a query; nothing while there is no database yet."""
        try:
            reader = open_reader(self.url)
        except SweeperError:
            return []
        try:
            return list(run_sql(reader, text).rows)
        finally:
            reader.dispose()

    def count(self, status: str) -> int:
        """Runs with that status."""
        rows = self.sql(f"SELECT count(*) FROM runs WHERE status = '{status}'")
        return int(rows[0][0]) if rows else 0

    def is_amid(self) -> bool:
        """Whether a run is finished and another goes on."""
        return bool(self.count("COMPLETED") and self.count("RUNNING"))

    def training(self) -> list[tuple[Any, ...]]:
        """(run_id,) of the runs whose training is seen to go on."""
        return self.sql(
            "SELECT DISTINCT run_id FROM runs JOIN measurements USING (run_id) "
            "WHERE status = 'RUNNING'"
        )

    def processes(self) -> list[psutil.Process]:
        """All live processes that descend from the commands, wherever they were moved to."""
        found = []
        for pid in psutil.pids():  # as reaper.processes does, and why
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.environ().get(LEASES) == self.leases:
                    found.append(process)
        return found

    def shared_memory(self) -> set[str]:
        """Files in /dev/shm that one of the processes has mapped."""
        paths = set()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                paths |= {mapped.path for mapped in process.memory_maps()}
        return {path for path in paths if path.startswith("/dev/shm/")}

    def trial_workers(self) -> list[psutil.Process]:
        """Ray's workers that run, or wait for, trials."""
        return [p for p in self.processes() if _title(p).startswith("ray::TrialWorker")]

    def env_workers(self) -> list[psutil.Process]:
        """Environment processes: forked by a server that each worker has."""
        servers = [server for worker in self.trial_workers() for server in _children(worker)]
        return [env for server in servers for env in _children(server)]

    def assert_nothing_left(self, seconds: float = 15.0) -> None:
        """No process, no entry in the Ray session of a command, no core taken."""
        with contextlib.suppress(AssertionError):
            eventually(lambda: not self.processes(), seconds)
        assert not [(process.pid, _title(process)) for process in self.processes()]
        launchers = {command.pid for command in self.commands}
        assert not [process for process, mark in reaper.processes() if mark.pid in launchers]
        with mock.patch.dict(os.environ, {LEASES: self.leases}):
            # A process that ends is nobody's before its locks are: its memory goes first.
            lease_cores(len(usable_cores()), wait_seconds=seconds).release()

    def assert_complete(self, n_trials: int = 4) -> None:
        """Each trial has one completed run, and no run, launcher or process is left over."""
        assert self.sql("SELECT number, status FROM trials ORDER BY number") == [
            (number, "COMPLETED") for number in range(1, n_trials + 1)
        ]
        assert self.count("COMPLETED") == n_trials
        assert self.count("RUNNING") == self.count("QUEUED") == 0
        assert self.sql("SELECT count(*) FROM launchers") == [(0,)]
        self.assert_nothing_left()


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
