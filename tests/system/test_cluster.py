"""A study on a cluster of several nodes: Ray's own, one raylet each, joined by address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray.cluster_utils import Cluster
from system.launching import LEASES, Command, World, eventually

from sweeper.trial.cores import usable_cores

pytestmark = pytest.mark.system

ENVIRONMENT = """
import os, pathlib, worlds

class Placed(worlds.Matching):
    def __init__(self, folder):
        place = os.environ.get("PLACE")  # not in the launcher, which looks at it as well
        if place == "bad":
            raise RuntimeError("this machine lacks a library")
        if place:
            gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
            pathlib.Path(folder, place).write_text(f"{__file__}, GPUs: {gpus}")
"""


N_ENV_WORKERS = 1
"""Environment processes of a trial with one core."""


class Nodes:
    """Nodes of a cluster whose head runs no trials."""

    def __init__(self, cluster: Cluster, world: World) -> None:
        self.cluster = cluster
        self.world = world
        self._added: list[Any] = []

    def add(
        self, place: str, *, cores: int = 1, has: dict[str, Any] | None = None, **environment: str
    ) -> Any:
        """A node of that name, where the environment variable PLACE is so; `has` what else Ray is
        told of it."""
        environment |= {LEASES: self.world.leases, "PLACE": place}
        node = self.cluster.add_node(
            num_cpus=cores, node_name=place, env_vars=environment, **has or {}
        )
        self._added.append(node)
        return node

    def remove(self) -> None:
        for node in self._added:
            if node in self.cluster.worker_nodes:
                self.cluster.remove_node(node, allow_graceful=False)

    def launch(self, *options: str) -> Command:
        address = self.cluster.address
        return self.world.start("launch", "study.yaml", "--ray-address", address, *options)

    def assert_nothing_left(self) -> None:
        """The launcher's workers are gone while the nodes live, and then all is."""
        eventually(lambda: not self.world.trial_workers())
        self.remove()
        self.world.assert_nothing_left()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield cluster
    cluster.shutdown()


@pytest.fixture
def nodes(cluster: Cluster, world: World) -> Iterator[Nodes]:
    nodes = Nodes(cluster, world)
    yield nodes
    nodes.remove()


def placed_study(world: World, *, parallelism: Any = None, **changes: Any) -> Path:
    """A study whose trials leave a file named for the place where they ran, with where their
    code came from and the GPUs that they may see."""
    (world.folder / "placing.py").write_text(ENVIRONMENT)
    places = world.folder / "places"
    places.mkdir()
    env = {"make": "placing:Placed", "kwargs": {"folder": str(places)}}
    trial = {"env": env, "budget": {"env_steps": 640}}
    if parallelism is not None:
        trial["parallelism"] = parallelism
    world.study(**changes, trial=trial)
    return places


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_trials_spread_over_the_nodes_of_our_versions_and_the_study_s_folder_travels(
    nodes: Nodes,
) -> None:
    world = nodes.world
    places = placed_study(world, ray={"working_dir": True})
    other = world.folder / "installed" / "gymnasium-99.1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: gymnasium\nVersion: 99.1.0\n")
    nodes.add("other", PYTHONPATH=f"{other.parent}:{os.environ['PYTHONPATH']}")
    nodes.add("one")
    nodes.add("two")
    launch = nodes.launch()
    assert launch.wait(120) == 0, launch.text
    assert names(places) == {"one", "two"}
    for place in places.iterdir():  # what was sent, not the folder that only the launcher has
        code, gpus = place.read_text().split(", GPUs: ")
        assert not Path(code).is_relative_to(world.folder)
        assert gpus == ""  # none is reserved
    assert world.count("COMPLETED") == 4
    (detail,) = world.sql("SELECT detail FROM events WHERE kind = 'node_refused'")[0]
    assert detail.startswith("node other ")
    assert "gets no trials: it has gymnasium 99.1.0 (the launcher has" in detail
    assert detail in launch.text
    nodes.assert_nothing_left()


def test_a_node_that_dies_costs_its_runs_and_old_and_new_ones_make_them_again(
    nodes: Nodes,
) -> None:
    world = nodes.world
    stone = world.waiting_study()
    nodes.add("one")
    doomed = nodes.add("doomed")
    launch = nodes.launch()
    eventually(lambda: len(world.env_workers()) >= 2 * N_ENV_WORKERS)
    raylet = psutil.Process(doomed.all_processes["raylet"][0].process.pid)
    raylet.kill()
    eventually(lambda: world.count("LOST") == 1)
    nodes.add("late")
    eventually(lambda: len(world.env_workers()) >= 2 * N_ENV_WORKERS)  # it has joined
    stone.unlink()
    assert launch.wait(120) == 0, launch.text
    assert world.sql("SELECT number, status FROM trials ORDER BY number") == [
        (number, "COMPLETED") for number in range(1, 5)
    ]
    ended = "SELECT attempt, status, count(*) FROM runs GROUP BY attempt, status ORDER BY 1, 2"
    assert world.sql(ended) == [(1, "COMPLETED", 3), (1, "LOST", 1), (2, "COMPLETED", 1)]
    (reason,) = world.sql("SELECT reason FROM runs WHERE status = 'LOST'")[0]
    assert "lost on node doomed" in reason
    (detail,) = world.sql("SELECT detail FROM events WHERE kind = 'node_lost'")[0]
    assert "node doomed" in detail
    assert "node doomed" in launch.text
    nodes.assert_nothing_left()


@pytest.mark.skipif(len(usable_cores()) < 2, reason="a node has no more cores than there are")
def test_what_no_node_can_hold_is_refused_before_anything_runs_and_what_one_can_runs_there(
    nodes: Nodes,
) -> None:
    """Nodes differ by what Ray is told of them: no GPU need be there for a trial to reserve it."""
    world = nodes.world
    places = placed_study(
        world,
        stop={"trials": 2},
        parallelism={"cores": 2, "gpus": 1, "n_envs": 4},
        ray={"labels": {"pool": "lab"}, "memory_bytes": 2.0e9},
    )

    def refusal() -> str:
        launch = nodes.launch()
        assert launch.wait(120) == 2, launch.text
        (line,) = launch.stderr.read_text().splitlines()
        assert not world.sql("SELECT name FROM studies")
        assert re.match(r"sweeper: study.yaml:\d+: ", line)
        return line

    all_of_it = {"labels": {"pool": "lab", "rack": "7"}, "num_gpus": 1, "memory": 3 * 10**9}
    nodes.add("elsewhere", cores=2, has=all_of_it | {"labels": {"rack": "7"}})
    assert "ray.labels: no node with a CPU has pool=lab" in refusal()
    nodes.add("small", cores=1, has=all_of_it)
    nodes.add("without", cores=2, has=all_of_it | {"num_gpus": 0})
    nodes.add("narrow", cores=2, has=all_of_it | {"memory": 10**9})
    together = "no node has 2 cores, 1 GPU and 2 GB of memory"
    assert f"parallelism.gpus cannot be had: {together}" in refusal()
    nodes.add("right", cores=2, has=all_of_it)
    launch = nodes.launch()
    assert launch.wait(120) == 0, launch.text
    assert names(places) == {"right"}
    assert (places / "right").read_text().endswith(", GPUs: 0")
    nodes.assert_nothing_left()


def test_a_node_that_fails_everything_is_quarantined_and_named(nodes: Nodes) -> None:
    world = nodes.world
    placed_study(world, stop={"trials": 12})
    nodes.add("good")
    nodes.add("bad")
    launch = nodes.launch()
    assert launch.wait(180) == 0, launch.text
    (detail,) = world.sql("SELECT detail FROM events WHERE kind = 'quarantined'")[0]
    assert "node bad" in detail
    assert "this machine lacks a library" in detail
    assert "node bad" in launch.text
    (failed,) = world.sql("SELECT count(*) FROM runs WHERE status = 'ERROR'")[0]
    assert 3 <= failed < 8
    assert world.count("COMPLETED") == 12 - failed
    nodes.assert_nothing_left()
