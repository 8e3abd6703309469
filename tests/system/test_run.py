"""`sweeper run` on a pipe."""

from __future__ import annotations

import json

import pytest
from system.launching import World

pytestmark = pytest.mark.system


@pytest.mark.parametrize("vec_env", ["serial", "subproc"])
def test_what_environments_print_is_not_among_the_records(world: World, vec_env: str) -> None:
    parallelism = {"vec_env": vec_env, "n_envs": 2}
    world.study(
        trial={
            "env": {"make": "worlds:Printing"},
            "parallelism": parallelism,
            "budget": {"env_steps": 256},
        }
    )
    run = world.start("run", "study.yaml")
    assert run.wait() == 0
    records = [json.loads(line) for line in run.stdout.read_text().splitlines()]
    assert [records[0]["event"], records[-1]["event"]] == ["started", "result"]
    assert "print: a new episode" in run.stderr.read_text()
    assert "write: a new episode" in run.stderr.read_text()
