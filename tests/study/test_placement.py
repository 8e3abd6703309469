"""Studies that the nodes cannot hold, refused at their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.core.errors import SpecError
from sweeper.study.placement import check_placement, needs_more_than_cores
from sweeper.study.resources import Resources, lacking, need_of
from sweeper.study.spec import LoadedStudy, load_study

STUDY = """\
study: s
stop: {trials: 4}
trial:
  env: {id: CartPole-v1}
  algorithm:
    kind: ppo
    network: {device: cpu}
  parallelism: {cores: 2}
  budget: {seconds: 10}
search:
  algorithm.gamma: {kind: float, low: 0.9, high: 0.99}
"""
NODES = (Resources(4, 0, 64 * 10**9), Resources(2, 2, 16 * 10**9))


def study(tmp_path: Path, *changes: tuple[str, str], added: str = "") -> LoadedStudy:
    text = f"{STUDY}{added}"
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return load_study(path)


def check(loaded: LoadedStudy) -> None:
    memory_bytes = loaded.spec.ray.memory_bytes
    check_placement(loaded, lambda spec: lacking(need_of(spec, memory_bytes=memory_bytes), NODES))


def refusal(loaded: LoadedStudy) -> str:
    with pytest.raises(SpecError) as caught:
        check(loaded)
    return str(caught.value).rpartition("/")[2]


CUDA = ("device: cpu", "device: cuda")


@pytest.mark.parametrize(
    ("changes", "added", "said"),
    [
        (
            [("cores: 2", "gpus: 3")],
            "",
            "x.yaml:8: parallelism.gpus cannot be had: no node has 3 GPUs",
        ),
        (
            [("cores: 2", "cores: 8")],
            "",
            "x.yaml:8: parallelism.cores cannot be had: no node has 8 cores",
        ),
        (
            [CUDA, ("cores: 2", "cores: 4")],
            "",
            "x.yaml:7: algorithm.network.device cannot be had: no node has 4 cores and 1 GPU",
        ),
        (
            [],
            "ray: {memory_bytes: 65.0e9}\n",
            "x.yaml:12: ray.memory_bytes cannot be had: no node has 65 GB of memory",
        ),
        (
            [CUDA],
            "ray: {memory_bytes: 17.0e9}\n",
            "x.yaml:7: algorithm.network.device cannot be had: "
            "no node has 2 cores, 1 GPU and 17 GB of memory",
        ),
        (
            [],
            "  parallelism.gpus: {kind: choice, choices: [0.5, 1, 4]}\n",
            "x.yaml:12: search.parallelism.gpus cannot be had: no node has 4 GPUs",
        ),
        (
            [("cores: 2", "cores: 4")],
            "  algorithm.network.device: {kind: choice, choices: [cpu, cuda]}\n",
            "x.yaml:12: search.algorithm.network.device cannot be had: "
            "no node has 4 cores and 1 GPU",
        ),
        (
            [],
            "baseline: {set: {parallelism.gpus: 3}}\n",
            "x.yaml:12: baseline.set.parallelism.gpus cannot be had: no node has 3 GPUs",
        ),
        (
            [],
            "  parallelism.gpus: {kind: choice, choices: [1, 3]}\n"
            "enqueue: [{parallelism.gpus: 1}, {parallelism.gpus: 3}]\n",
            "x.yaml:13: enqueue.1.parallelism.gpus cannot be had: no node has 3 GPUs",
        ),
    ],
)
def test_what_no_node_has_is_refused_where_it_is_asked_for(
    tmp_path: Path, changes: list[tuple[str, str]], added: str, said: str
) -> None:
    assert refusal(study(tmp_path, *changes, added=added)) == said


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ([CUDA], ""),
        ([("cores: 2", "cores: 4")], "ray: {memory_bytes: 64.0e9}\n"),
        ([("device: cpu", "device: auto"), ("cores: 2", "cores: 4")], ""),
        ([], "  parallelism.gpus: {kind: choice, choices: [0.5, 1, 2]}\n"),
        (
            [],
            "  algorithm.network.device: {kind: choice, choices: [cpu, cuda]}\n"
            "  parallelism.cores:\n"
            "    {kind: choice, choices: [1, 4], when: {algorithm.network.device: cpu}}\n",
        ),
    ],
)
def test_what_one_node_holds_is_let_through(
    tmp_path: Path, changes: list[tuple[str, str]], added: str
) -> None:
    check(study(tmp_path, *changes, added=added))


def test_only_combinations_that_can_be_suggested_count(tmp_path: Path) -> None:
    """Each value alone fits some node; with the condition of the case above, all do together."""
    searched = (
        "  algorithm.network.device: {kind: choice, choices: [cpu, cuda]}\n"
        "  parallelism.cores: {kind: choice, choices: [1, 4]}\n"
    )
    assert "no node has 4 cores and 1 GPU" in refusal(study(tmp_path, added=searched))


@pytest.mark.parametrize(
    ("changes", "added", "expected"),
    [
        ([], "", False),
        ([("device: cpu", "device: auto")], "", False),
        ([CUDA], "", True),
        ([("cores: 2", "gpus: 0.5")], "", True),
        ([], "  algorithm.network.device: {kind: choice, choices: [cpu, cuda]}\n", True),
        ([], "baseline: {set: {parallelism.gpus: 1}}\n", True),
        ([], "ray: {memory_bytes: 1}\n", True),
    ],
)
def test_whether_cores_are_all_that_a_study_needs(
    tmp_path: Path, changes: list[tuple[str, str]], added: str, *, expected: bool
) -> None:
    assert needs_more_than_cores(study(tmp_path, *changes, added=added)) is expected
