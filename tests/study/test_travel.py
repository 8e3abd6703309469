"""What goes along to the nodes of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sweeper.core.errors import SpecError
from sweeper.study.spec import LoadedStudy, load_study
from sweeper.study.travel import MOST_BYTES, runtime_env

STUDY: dict[str, Any] = {
    "study": "travelling",
    "stop": {"trials": 4},
    "trial": {
        "env": {"id": "CartPole-v1"},
        "algorithm": {"kind": "ppo"},
        "budget": {"seconds": 1},
    },
    "search": {"algorithm.n_steps": {"kind": "pow2", "low": 16, "high": 32}},
}


def study(folder: Path, **ray: Any) -> LoadedStudy:
    path = folder / "study.yaml"
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump({**STUDY, "ray": ray}, file)
    return load_study(path)


def test_nothing_travels_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert runtime_env(study(tmp_path)) == {}


def test_the_study_s_folder_or_another_travels_with_packages(tmp_path: Path) -> None:
    env = runtime_env(study(tmp_path, working_dir=True, pip=["pybullet==3.2.7"]))
    assert env["working_dir"] == str(tmp_path)
    assert env["pip"] == ["pybullet==3.2.7"]
    (tmp_path / "code").mkdir()
    env = runtime_env(study(tmp_path / "code", working_dir=".."))
    assert env["working_dir"] == str(tmp_path)


def test_a_folder_that_is_missing_or_too_large_is_refused_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"study.yaml:\d+: ray.working_dir.*no folder .*elsewhere"):
        runtime_env(study(tmp_path, working_dir="elsewhere"))
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(SpecError, match="at most 100 MiB travel"):
        runtime_env(study(tmp_path, working_dir=True))


def test_results_and_histories_stay_behind(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("sweeper.db", ".git/pack"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(MOST_BYTES + 1)
    assert runtime_env(study(tmp_path, working_dir=True))["working_dir"] == str(tmp_path)
