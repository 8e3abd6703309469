"""Ctrl-C: once is gentle, twice is at once."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Callable

import pytest
from system.launching import PATIENCE_SECONDS, Command, World, eventually

pytestmark = pytest.mark.system


def test_an_interrupted_study_is_taken_up_where_it_was(world: World) -> None:
    world.study(trial={"budget": {"seconds": 2}})
    by_terminal = world.launch()
    eventually(world.is_amid)
    by_terminal.signal_group(signal.SIGINT)
    assert_stopped(world, by_terminal)
    finished = world.count("COMPLETED")

    by_init = world.launch()
    eventually(lambda: world.count("RUNNING"))
    by_init.signal(signal.SIGTERM)
    assert_stopped(world, by_init)
    assert world.count("COMPLETED") >= finished

    assert world.launch().wait() == 0
    world.assert_complete()
    # The second attempt is made with the seed of the first.
    assert world.sql("SELECT count(DISTINCT seed) FROM runs") == [(4,)]
    assert world.count("LOST") == 0


def assert_stopped(world: World, launch: Command) -> None:
    assert launch.wait() == 130
    assert launch.stderr.read_text() == ""
    assert "`sweeper launch study.yaml" in launch.text
    assert world.count("INTERRUPTED")
    assert world.count("RUNNING") == 0
    world.assert_nothing_left()


def test_a_second_ctrl_c_ends_a_study_that_does_not_listen(world: World) -> None:
    stone = world.folder / "stone"
    stone.touch()
    env = {"make": "worlds:Waiting", "kwargs": {"file": str(stone)}}
    world.study(stop={"trials": 2}, trial={"env": env, "budget": {"env_steps": 640}})
    terminal, theirs = pty.openpty()
    launch = world.start(
        "launch",
        "study.yaml",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=False,
        preexec_fn=lambda: os.login_tty(theirs),
    )
    os.close(theirs)
    read_until(terminal, lambda _: bool(world.env_workers()))
    os.write(terminal, b"\x03")
    read_until(terminal, lambda shown: b"stopp" in shown)
    os.write(terminal, b"\x03")
    seen = read_until(terminal, None)
    os.close(terminal)
    assert launch.wait() == 130
    assert b"Traceback" not in seen
    world.assert_nothing_left()
    assert world.count("RUNNING") == 0
    assert world.count("INTERRUPTED")

    stone.unlink()
    assert world.launch().wait() == 0
    world.assert_complete(2)


def read_until(terminal: int, condition: Callable[[bytes], bool] | None) -> bytes:
    """What is shown until the condition holds for it; without one, until the end."""
    shown = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while condition is None or not condition(shown):
        assert time.monotonic() < deadline, shown.decode()
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 65_536)
            except OSError:  # EIO: the other end is closed
                assert condition is None, shown.decode()
                break
    return shown
