"""What a trial needs of a node, and whether that is free."""

from __future__ import annotations

from typing import Any

import pytest

from sweeper.study.resources import Hold, Need, Resources, hold, lacking, need_of
from sweeper.trial.spec import TrialSpec


def trial(algorithm: dict[str, Any] | None = None, **parallelism: Any) -> TrialSpec:
    return TrialSpec.model_validate(
        {
            "env": {"id": "CartPole-v1"},
            "algorithm": algorithm or {"kind": "ppo"},
            "parallelism": parallelism,
            "budget": {"seconds": 1},
        }
    )


def on(device: str) -> dict[str, Any]:
    return {"kind": "ppo", "network": {"device": device}}


def fill(there: Resources, need: Need) -> list[Hold]:
    """As many as there is room for."""
    held: list[Hold] = []
    while (another := hold(need, there, held)) is not None:
        held.append(another)
    return held


@pytest.mark.parametrize(
    ("spec", "need"),
    [
        (trial(cores=2), Need(2)),
        (trial(gpus=1), Need(1, 1.0)),
        (trial(on("cuda")), Need(1, 1.0)),
        (trial(on("cuda"), gpus=0.25), Need(1, 0.25)),
        (trial(on("auto")), Need(1, 1.0, is_gpu_optional=True)),
        (trial(on("auto"), gpus=2), Need(1, 2.0, is_gpu_optional=True)),
        (trial({"kind": "sb3"}), Need(1)),
        (trial({"kind": "my:Learner", "network": "large"}, gpus=1), Need(1, 1.0)),
    ],
)
def test_a_trial_needs_the_gpus_that_it_names_else_one_if_its_network_goes_there(
    spec: TrialSpec, need: Need
) -> None:
    assert need_of(spec) == need


def test_every_trial_of_a_study_reserves_the_same_memory() -> None:
    assert need_of(trial(), memory_bytes=4.5e9) == Need(1, 0.0, 4_500_000_000)


def test_a_node_holds_what_its_scarcest_resource_allows() -> None:
    there = Resources(8, 2, 10)
    assert len(fill(there, Need(3))) == 2
    assert len(fill(there, Need(1, 1))) == 2
    assert len(fill(there, Need(1, 0, 3))) == 3
    assert len(fill(there, Need(1, 0.5, 3))) == 3
    assert fill(there, Need(9)) == fill(there, Need(1, 3)) == fill(there, Need(1, 0, 11)) == []


@pytest.mark.parametrize(
    ("share", "n"), [(1, 2), (0.5, 4), (1 / 3, 6), (0.3, 6), (0.1, 20), (0.51, 2)]
)
def test_a_share_is_a_share_of_one_device(share: float, n: int) -> None:
    held = fill(Resources(32, 2), Need(1, share))
    assert len(held) == n
    assert {each.devices for each in held} == {(0,), (1,)}


def test_shares_fill_one_device_before_they_begin_another_and_whole_ones_need_empty_ones() -> None:
    there = Resources(8, 2)
    held = [Hold(Resources(1, 0.5), (0,)), Hold(Resources(1, 0.25), (1,))]
    assert hold(Need(1, 0.25), there, held) == Hold(Resources(1, 0.25), (0,))
    assert hold(Need(1, 0.6), there, held) == Hold(Resources(1, 0.6), (1,))
    assert hold(Need(1, 0.8), there, held) is None  # 1.25 are free, on two of them
    assert hold(Need(1, 1), there, held) is None
    assert hold(Need(1, 1), there, held[1:]) == Hold(Resources(1, 1), (0,))
    assert hold(Need(1, 2), there, held[1:]) is None
    assert hold(Need(1, 2), there) == Hold(Resources(1, 2), (0, 1))


def test_what_is_lacking_is_the_one_resource_or_what_no_node_has_together() -> None:
    nodes = [Resources(8, 0, 64), Resources(4, 2, 16)]
    assert lacking(Need(8, 0, 64), nodes) is None
    assert lacking(Need(4, 2, 16), nodes) is None
    assert lacking(Need(9, 3, 65), nodes) == Resources(9)
    assert lacking(Need(8, 3, 65), nodes) == Resources(0, 3)
    assert lacking(Need(8, 2, 65), nodes) == Resources(0, 0, 65)
    assert lacking(Need(8, 2, 16), nodes) == Resources(8, 2, 16)
    assert lacking(Need(8, 2, is_gpu_optional=True), nodes) is None
    assert lacking(Need(1, 1, 1), []) == Resources(1)


def test_resources_in_words() -> None:
    assert str(Resources(1)) == "1 core"
    assert str(Resources(0, 0.25)) == "0.25 GPU"
    assert str(Resources(2, 1)) == "2 cores and 1 GPU"
    assert str(Resources(4, 2, 4_000_000_000)) == "4 cores, 2 GPUs and 4 GB of memory"
