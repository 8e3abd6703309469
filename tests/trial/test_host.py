from __future__ import annotations

from sweeper.core.records import TrainingStarted
from sweeper.trial.cores import usable_cores
from sweeper.trial.host import this_host
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec


def test_the_host_of_a_pinned_trial_has_all_its_cores() -> None:
    spec = TrialSpec.model_validate(
        {
            "env": {"make": "worlds:Matching"},
            "algorithm": {"kind": "ppo", "n_steps": 16},
            "parallelism": {"vec_env": "serial", "n_envs": 4, "cores": 1},
            "budget": {"env_steps": 64},
        }
    )
    this_host.cache_clear()  # as in a worker's first trial
    (started,) = (event for event in run_trial(spec) if isinstance(event, TrainingStarted))
    assert started.host.usable_cores == len(usable_cores())
