"""Cores and threads as searched parameters, on real workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sweeper.store import queries
from sweeper.store.store import Store
from sweeper.study.claim import claim_study
from sweeper.study.launch import Launcher
from sweeper.study.spec import load_study
from sweeper.trial.cores import LEASES, usable_cores

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(len(usable_cores()) < 2, reason="needs two cores to choose from"),
]

STUDY: dict[str, Any] = {
    "study": "cores",
    "stop": {"trials": 4},
    "sampler": {"kind": "grid"},
    "replicate": {"share": 0},
    "trial": {
        "env": {"make": "worlds:Matching"},
        "algorithm": {"kind": "ppo", "n_steps": 16, "n_minibatches": 2, "n_epochs": 1},
        "parallelism": {"n_envs": 4},
        "budget": {"env_steps": 640},
        "evaluation": {"episodes": 1},
    },
    "search": {
        "parallelism.cores": {"kind": "choice", "choices": [1, 2]},
        "parallelism.torch_threads": {"kind": "choice", "choices": [1, 2]},
    },
}


def test_trials_get_the_cores_and_threads_that_were_chosen_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sweeper.study.ray_executor import RayExecutor

    monkeypatch.setenv(LEASES, str(tmp_path / "leases"))
    path, url = tmp_path / "study.yaml", f"sqlite:///{tmp_path / 'results.db'}"
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump(STUDY, file)
    loaded = load_study(path, usable_cores=len(usable_cores()))
    with Store.open(url) as store, claim_study(store, loaded, target_trials=4) as claim:
        reader, executor = queries.open_reader(url), RayExecutor("local")
        try:
            Launcher(loaded, claim, store, reader, executor, target_trials=4).run()
        finally:
            executor.close()
        trials = queries.trials(reader, claim.study.study_id)
        leased = {
            trial.number: run.leased_cores
            for trial in trials
            for run in queries.runs(reader, trial.trial_id)
        }
        reader.dispose()
    assert {trial.status for trial in trials} == {"COMPLETED"}, [t.reason for t in trials]
    assert {(t.cores, t.torch_threads) for t in trials} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    for trial in trials:
        text = leased[trial.number]
        assert text is not None
        threads = len(usable_cores()[0])
        assert len(text.split(",")) == trial.cores * threads
        assert trial.n_workers == trial.cores  # one a core, unless told otherwise
