"""What was trained, saved and gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sweeper.core.clock import ManualClock, StopSignal
from sweeper.core.errors import InputError
from sweeper.core.records import Evaluation, Measurement, RunResult, RunStatus
from sweeper.envs.make import make_vec_env
from sweeper.trial.checkpoint import Checkpoint
from sweeper.trial.evaluate import evaluate
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec

OPTIMIZERS = ("adam", "rmsprop", "sgd", "kfac")
NETWORKS: dict[str, dict[str, Any]] = {
    "cnn": {"convolutions": [{"filters": 4, "kernel": 8, "stride": 4}]},
    "impala": {"channels": [4, 4]},
}


def spec(env_steps: int = 1024, optimizer: str = "adam", **env: Any) -> TrialSpec:
    return TrialSpec.model_validate(
        {
            "env": {"make": "worlds:Constant", **env},
            "algorithm": {
                "kind": "ppo",
                "n_steps": 16,
                "n_minibatches": 2,
                "n_epochs": 2,
                "optimizer": {"kind": optimizer, "schedule": {"kind": "linear"}},
            },
            "parallelism": {"vec_env": "serial", "n_envs": 4},
            "budget": {"env_steps": env_steps},
            "evaluation": {"episodes": 3},
        }
    )


def run(trial: TrialSpec, **options: Any) -> tuple[list[Measurement], RunResult, list[Evaluation]]:
    events = list(run_trial(trial, **options))
    result = events[-1]
    assert isinstance(result, RunResult)
    measurements = [event for event in events if isinstance(event, Measurement)]
    return measurements, result, [event for event in events if isinstance(event, Evaluation)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_goes_on_where_it_ended(optimizer: str, tmp_path: Path) -> None:
    half = tmp_path / "half.pt"
    run(spec(1024, optimizer), checkpoint=half)
    saved = Checkpoint.load(half)
    assert saved.env_steps == 1024
    assert saved.spec == spec(1024, optimizer)
    measurements, result, _ = run(
        spec(2048, optimizer), resume=saved, checkpoint=tmp_path / "whole.pt"
    )
    assert result.status is RunStatus.COMPLETED
    assert result.env_steps == 1024  # its own
    assert measurements[0].progress == pytest.approx((1024 + 64) / 2048)
    # The schedule goes on as well, and is not begun anew.
    assert (
        measurements[0].learning_rate < 0.51 * spec(1, optimizer).algorithm.optimizer.learning_rate
    )
    whole = Checkpoint.load(tmp_path / "whole.pt")
    assert whole.env_steps == 2048
    assert not torch.equal(whole.learner["weights"], saved.learner["weights"])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_restored_learner_is_the_saved_one(optimizer: str, tmp_path: Path) -> None:
    path, again = tmp_path / "one.pt", tmp_path / "again.pt"
    trial = spec(1024, optimizer, normalize_observation=True, normalize_reward=True)
    _, _, episodes = run(trial, checkpoint=path)
    saved = Checkpoint.load(path)
    stop = StopSignal(requested=True)
    run(
        spec(2048, optimizer, normalize_observation=True, normalize_reward=True),
        resume=saved,
        checkpoint=again,
        stop=stop,
    )
    restored = Checkpoint.load(again)
    assert torch.equal(restored.learner["weights"], saved.learner["weights"])
    _assert_equal(restored.learner, saved.learner)
    assert saved.observation is not None
    assert saved.reward is not None
    with make_vec_env(trial.env, vec_env="serial", n_envs=1, seed=0) as vec_env:
        learner, normalizer = saved.learner_on(vec_env)
        played = evaluate(
            learner,
            trial.env,
            trial.evaluation,
            deterministic=True,
            normalizer=normalizer,
            clock=ManualClock(),
        )
    assert normalizer is not None
    np.testing.assert_array_equal(normalizer.moments.mean, saved.observation.mean)
    assert played == [episode for episode in episodes if episode.deterministic]


@pytest.mark.parametrize("kind", ["cnn", "impala"])
def test_a_restored_network_of_images_plays_as_the_saved_one(kind: str, tmp_path: Path) -> None:
    trial = TrialSpec.model_validate(
        {
            "env": {"make": "worlds:Pictured"},
            "algorithm": {
                "kind": "acktr",
                "network": {"kind": kind, "hidden": [8], **NETWORKS[kind]},
            },
            "parallelism": {"vec_env": "serial", "n_envs": 2},
            "budget": {"env_steps": 160},
            "evaluation": {"episodes": 3},
        }
    )
    _, _, episodes = run(trial, checkpoint=tmp_path / "one.pt")
    with make_vec_env(trial.env, vec_env="serial", n_envs=1, seed=0) as vec_env:
        learner, _ = Checkpoint.load(tmp_path / "one.pt").learner_on(vec_env)
    played = evaluate(
        learner,
        trial.env,
        trial.evaluation,
        deterministic=True,
        normalizer=None,
        clock=ManualClock(),
    )
    assert played == [episode for episode in episodes if episode.deterministic]


def test_a_resumed_trial_sees_other_episodes(tmp_path: Path) -> None:
    trial = spec().model_copy(
        update={"env": spec().env.model_copy(update={"make": "worlds:Matching"})}
    )
    first, _, _ = run(trial, checkpoint=tmp_path / "one.pt")
    more = trial.model_copy(update={"budget": spec(1088).budget})
    resumed, _, _ = run(more, resume=Checkpoint.load(tmp_path / "one.pt"))
    assert resumed[0].training_return != first[0].training_return


def test_what_is_stopped_is_saved_too(tmp_path: Path) -> None:
    stop = StopSignal()
    for event in run_trial(spec(), stop=stop, checkpoint=tmp_path / "cut.pt"):
        stop.requested = stop.requested or isinstance(event, Measurement)
    assert Checkpoint.load(tmp_path / "cut.pt").env_steps == 64


def test_a_file_that_is_no_checkpoint_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with pytest.raises(InputError, match="No such file"):
        Checkpoint.load(path)
    path.write_text("env: CartPole-v1\n")
    with pytest.raises(InputError, match="not a checkpoint"):
        Checkpoint.load(path)
    torch.save([1, 2], path)
    with pytest.raises(InputError, match="not a checkpoint"):
        Checkpoint.load(path)
    torch.save({"format": 99}, path)
    with pytest.raises(InputError, match="format 99, this one reads 1"):
        Checkpoint.load(path)


class Malicious:
    def __reduce__(self) -> Any:
        return (open, ("/tmp/never", "w"))


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    torch.save({"format": 1, "spec": Malicious()}, tmp_path / "x.pt")
    with pytest.raises(InputError, match="not a checkpoint"):
        Checkpoint.load(tmp_path / "x.pt")


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    run(spec(), checkpoint=tmp_path / "x.pt")
    other = spec().model_copy(
        update={"env": spec().env.model_copy(update={"make": "worlds:Matching"})}
    )
    _, result, _ = run(
        other.model_copy(update={"budget": spec(2048).budget}),
        resume=Checkpoint.load(tmp_path / "x.pt"),
    )
    assert result.status is RunStatus.ERROR
    assert result.reason is not None
    assert "of another network" in result.reason
    assert "Traceback" not in result.reason


def test_nothing_is_half_written(tmp_path: Path) -> None:
    run(spec(), checkpoint=tmp_path / "x.pt")
    checkpoint = Checkpoint.load(tmp_path / "x.pt")
    with pytest.raises(InputError, match="cannot be written"):
        checkpoint.save(tmp_path / "missing" / "x.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["x.pt"]


def _assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _assert_equal(one[key], other[key])
    elif isinstance(one, list):
        for a, b in zip(one, other, strict=True):
            _assert_equal(a, b)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other
