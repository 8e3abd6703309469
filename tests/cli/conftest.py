"""The command line in this process, in a folder of its own, on the results of a real study."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sweeper.cli import run
from sweeper.store.queries import open_reader
from sweeper.store.store import Store
from sweeper.study.claim import claim_study
from sweeper.study.executor import InlineExecutor
from sweeper.study.launch import Launcher
from sweeper.study.spec import load_study

STUDY: dict[str, Any] = {
    "study": "matching",
    "stop": {"trials": 4},
    "replicate": {"share": 0},
    "must_learn": False,
    "trial": {
        "env": {"make": "worlds:Matching"},
        "algorithm": {"kind": "ppo", "n_steps": 16, "n_minibatches": 2, "n_epochs": 1},
        "parallelism": {"vec_env": "serial", "n_envs": 2},
        "budget": {"env_steps": 640},
        "evaluation": {"episodes": 3},
    },
    "search": {
        "parallelism.n_envs": {"kind": "pow2", "low": 1, "high": 4},
        "algorithm.optimizer.kind": {"kind": "choice", "choices": ["adam", "rmsprop"]},
        "algorithm.optimizer.learning_rate": {
            "kind": "float",
            "low": 1e-4,
            "high": 1e-2,
            "log": True,
        },
    },
}


def write_study(path: Path, **changes: Any) -> Path:
    """A study file; keys of `trial` replace those of STUDY one by one."""
    trial = {**STUDY["trial"], **changes.pop("trial", {})}
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump({**STUDY, **changes, "trial": trial}, file)
    return path


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as JSON, of which NaN and Infinity are no part."""

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


Cli = Callable[..., Answer]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `study.yaml` in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("SWEEPER_DB", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    write_study(tmp_path / "study.yaml")
    return tmp_path


@pytest.fixture
def cli(folder: Path, capfd: pytest.CaptureFixture[str]) -> Cli:
    def command(*arguments: str) -> Answer:
        capfd.readouterr()
        return Answer(run(list(arguments)), *capfd.readouterr())

    return command


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    loaded = load_study(write_study(folder / "study.yaml"))
    url = f"sqlite:///{folder / 'sweeper.db'}"
    with Store.open(url) as store, claim_study(store, loaded, target_trials=4) as claim:
        reader = open_reader(url)
        Launcher(loaded, claim, store, reader, InlineExecutor(), target_trials=4).run()
        reader.dispose()
    return folder / "sweeper.db"


@pytest.fixture
def results(finished_study: Path, folder: Path) -> Path:
    """`sweeper.db`, the default database, with the finished study `matching`."""
    return Path(shutil.copy(finished_study, folder))
