"""`sweeper init`: what it writes can be launched as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest

from sweeper.core.errors import InputError
from sweeper.envs.spec import EnvSpec
from sweeper.study.spec import LoadedStudy, expected_seconds, load_study
from sweeper.study.starter import Look, look, starter_study

CHEAP = Look(
    env=EnvSpec(id="CartPole-v1"),
    is_discrete=True,
    is_image=False,
    step_seconds=1e-5,
    reward_threshold=475.0,
    max_episode_steps=500,
    cores=2,
)


def loaded(tmp_path: Path, seen: Look, **options: float) -> LoadedStudy:
    path = tmp_path / "study.yaml"
    path.write_text(starter_study(seen, **options))
    return load_study(path, usable_cores=seen.cores)


@pytest.mark.parametrize(
    ("env_id", "is_discrete"),
    [
        ("CartPole-v1", True),
        ("Pendulum-v1", False),
        ("Hopper-v5", False),
        ("ale_py:ALE/Pong-v5", True),
    ],
)
def test_a_study_of_a_real_environment_is_valid(
    tmp_path: Path, env_id: str, is_discrete: bool
) -> None:
    seen = look(env_id, cores=2)
    assert seen.is_discrete == is_discrete
    assert 1e-7 < seen.step_seconds < 1.0
    study = loaded(tmp_path, seen)
    assert study.spec.trial.env.id == env_id
    assert [c.origin for c in study.queue] == ["baseline", "enqueued", "enqueued"]
    assert study.spec.confirm is not None
    valid, combinations = study.space.report().valid, study.space.report().combinations
    assert valid is not None
    assert combinations is not None
    assert valid > 0.9 * combinations


def test_a_dearer_environment_gets_a_longer_budget(tmp_path: Path) -> None:
    cheap = loaded(tmp_path, CHEAP).spec.trial.budget.seconds
    dear = loaded(tmp_path, replace(CHEAP, step_seconds=5e-4)).spec.trial.budget.seconds
    assert cheap == 10
    assert dear == 90


def test_hours_give_as_many_trials_as_fit(tmp_path: Path) -> None:
    for hours in (0.5, 2.0):
        study = loaded(tmp_path, CHEAP, hours=hours)
        assert study.spec.stop.hours == hours
        unbounded = replace(study, spec=study.spec.model_copy(update={
            "stop": study.spec.stop.model_copy(update={"hours": None})
        }))  # fmt: skip
        seconds = expected_seconds(unbounded.spec, CHEAP.cores)
        assert seconds is not None
        assert 0.6 * hours * 3600 < seconds <= hours * 3600


def test_a_namespaced_id_makes_a_plain_name(tmp_path: Path) -> None:
    study = loaded(tmp_path, replace(CHEAP, env=EnvSpec(id="ale_py:ALE/Pong-v5")))
    assert study.spec.study == "pong-v5-speed-against-return"


def test_images_beside_other_observations_get_a_network_for_images(tmp_path: Path) -> None:
    name = "Turned-v0"
    gymnasium.register(name, entry_point="worlds:Turned", kwargs={"shape": (36, 36, 3)})
    try:
        study = loaded(tmp_path, look(name, cores=2))
    finally:
        del gymnasium.registry[name]
    assert study.spec.trial.algorithm.network.kind == "cnn"
    assert not study.spec.trial.env.normalize_observation


def test_an_unknown_environment_is_refused_with_near_matches() -> None:
    with pytest.raises(InputError, match="did you mean CartPole-v1"):
        look("CartPoel-v1", cores=2)
