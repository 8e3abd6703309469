"""What dies in the middle of a study, killed for real, and what must hold all the same."""

from __future__ import annotations

import signal
import socket

import psutil
import pytest
from system.launching import Command, World, eventually

pytestmark = pytest.mark.system


def test_a_killed_launcher_leaves_nothing_and_the_next_one_completes_its_study(
    world: World,
) -> None:
    world.study(trial={"budget": {"seconds": 2}})
    kill(world, world.launch(), when=world.is_amid)
    finished = world.sql("SELECT run_id FROM runs WHERE status = 'COMPLETED'")
    unfinished = world.sql("SELECT trial_id FROM runs WHERE status = 'RUNNING' ORDER BY trial_id")
    assert finished
    assert unfinished

    launch = world.launch()
    assert launch.wait() == 0
    world.assert_complete()
    assert "trials are there already" in launch.text
    assert set(finished) <= set(world.sql("SELECT run_id FROM runs WHERE status = 'COMPLETED'"))
    lost = "SELECT trial_id FROM runs WHERE status = 'LOST' AND reason = 'its launcher died'"
    assert world.sql(f"{lost} ORDER BY trial_id") == unfinished
    assert world.sql("SELECT count(*) FROM runs") == [(4 + len(unfinished),)]


def test_a_launcher_killed_while_it_starts_leaves_nothing(world: World) -> None:
    world.study(stop={"trials": 1})
    kill(world, world.launch(), when=lambda: started(world, "gcs_server"))
    kill(world, world.launch(), when=lambda: started(world, "raylet"))
    kill(world, world.launch(), when=lambda: world.count("RUNNING"))
    assert world.launch().wait() == 0
    world.assert_complete(1)


def test_a_killed_worker_and_a_killed_environment_cost_a_run_each(world: World) -> None:
    stone = world.folder / "stone"
    stone.touch()
    env = {"make": "worlds:Waiting", "kwargs": {"file": str(stone)}}
    world.study(stop={"trials": 3}, concurrency=1, trial={"env": env, "budget": {"env_steps": 640}})
    launch = world.launch()
    eventually(world.env_workers)
    (worker,) = world.trial_workers()
    worker.kill()
    eventually(lambda: world.count("LOST") == 1)
    eventually(world.env_workers)[0].kill()
    eventually(lambda: world.count("LOST") == 2)
    stone.unlink()
    assert launch.wait() == 0
    world.assert_complete(3)
    assert world.sql("SELECT trial_id, attempt, kind, status FROM runs ORDER BY run_id") == [
        (1, 1, "first", "LOST"),
        (1, 2, "retry", "LOST"),
        (1, 3, "retry", "COMPLETED"),
        (2, 1, "first", "COMPLETED"),
        (3, 1, "first", "COMPLETED"),
    ]
    reasons = world.sql("SELECT reason FROM runs WHERE status = 'LOST' ORDER BY run_id")
    assert "worker was lost" in reasons[0][0]
    assert "environment" in reasons[1][0]
    assert launch.stderr.read_text() == ""


def test_a_launcher_whose_ray_dies_says_so_and_the_next_one_goes_on(world: World) -> None:
    stone = world.folder / "stone"
    stone.touch()
    env = {"make": "worlds:Waiting", "kwargs": {"file": str(stone)}}
    world.study(stop={"trials": 2}, trial={"env": env, "budget": {"env_steps": 640}})
    launch = world.launch()
    eventually(world.env_workers)
    (raylet,) = (p for p in world.processes() if p.name() == "raylet")
    raylet.kill()
    assert launch.wait() == 1
    assert "Ray has died" in launch.stderr.read_text()
    assert "Traceback" not in launch.text
    world.assert_nothing_left()
    stone.unlink()
    assert world.launch().wait() == 0
    world.assert_complete(2)


def test_an_environment_that_hangs_times_out_and_the_study_goes_on(world: World) -> None:
    stone = world.folder / "stone"
    stone.touch()
    env = {"make": "worlds:Waiting", "kwargs": {"file": str(stone)}, "step_timeout": 1}
    world.study(stop={"trials": 3}, concurrency=1, trial={"env": env})
    launch = world.launch()
    eventually(lambda: world.count("TIMEOUT"))
    stone.unlink()
    assert launch.wait() == 0
    statuses = world.sql("SELECT status FROM trials ORDER BY number")
    assert statuses[0] == ("TIMEOUT",)
    assert statuses[-1] == ("COMPLETED",)
    assert world.count("RUNNING") == 0
    world.assert_nothing_left()


def test_a_second_launcher_is_refused_until_the_first_is_dead(world: World) -> None:
    stone = world.folder / "stone"
    stone.touch()
    env = {"make": "worlds:Waiting", "kwargs": {"file": str(stone)}}
    world.study(stop={"trials": 2}, trial={"env": env, "budget": {"env_steps": 640}})
    first = world.launch()
    eventually(lambda: world.count("RUNNING"))
    second = world.launch()
    assert second.wait() == 2
    assert second.stdout.read_text() == ""
    (line,) = second.stderr.read_text().splitlines()
    assert f"process {first.pid} on {socket.gethostname()} since " in line
    assert first.process.poll() is None
    kill(world, first, when=lambda: True)
    stone.unlink()
    assert world.launch().wait() == 0
    world.assert_complete(2)


def kill(world: World, launch: Command, *, when: object) -> None:
    """SIGKILL the launcher in that moment; all of its processes are gone soon after."""
    eventually(when)  # type: ignore[arg-type]
    launch.signal(signal.SIGKILL)
    assert launch.wait() == 128 + signal.SIGKILL
    world.assert_nothing_left()


def started(world: World, name: str) -> bool:
    return any(psutil.Process(p.pid).name() == name for p in world.processes())
