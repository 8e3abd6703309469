"""A study from its first process to its last, undisturbed."""

from __future__ import annotations

import re
import signal
import socket
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest
from system.launching import World, eventually

pytestmark = pytest.mark.system


def test_a_study_leaves_its_results_and_nothing_else(world: World) -> None:
    world.study(trial={"budget": {"seconds": 2}})
    launch = world.launch()
    eventually(world.training)
    shared = world.shared_memory()
    assert launch.wait() == 0
    world.assert_complete()
    assert not [path for path in shared if Path(path).exists()]
    assert world.sql("SELECT count(*), max(attempt) FROM runs") == [(4, 1)]
    assert world.sql("SELECT count(*) FROM evaluations") == [(16,)]

    assert "matching: the front" in launch.text
    assert launch.stderr.read_text() == ""
    plot = world.folder / "matching-pareto.html"
    assert f"plot:      {plot}" in launch.text
    page = plot.read_text()
    assert "Plotly.newPlot" in page
    fetched = r"""<(?:script|link|img|iframe)[^>]*\s(?:src|href)\s*=\s*["']?(?:https?:)?//"""
    assert not re.search(fetched, page)


def test_the_dashboard_shows_a_study_while_it_runs_and_holds_nothing_up(database: World) -> None:
    world = database
    world.study(trial={"budget": {"seconds": 2}})
    launch = world.launch()
    eventually(world.training)
    (number,) = world.sql("SELECT number FROM trials WHERE status = 'RUNNING'")[0]
    port = free_port()
    dashboard = world.start("dashboard", "--port", str(port))
    site = f"http://127.0.0.1:{port}"
    eventually(lambda: "dashboard: " in dashboard.text and is_open(port))
    sql = quote("SELECT number, status FROM trial_results")
    paths = ("/", "/hosts", f"/query?sql={sql}", "/study/matching")
    paths += (f"/study/matching/trial/{number}", "/api/study/matching", "/api/studies")
    while True:
        answers = {path: status_of(site + path) for path in paths}
        assert set(answers.values()) == {200}
        if launch.process.poll() is not None:
            break
        seen_running = True
    assert seen_running
    assert launch.wait() == 0
    dashboard.signal(signal.SIGINT)
    assert dashboard.wait() in (0, 130)
    assert launch.stderr.read_text() == ""
    assert "locked" not in launch.text + dashboard.text
    assert "Traceback" not in dashboard.text
    world.assert_complete()


def test_gpus_that_this_machine_has_not_are_refused_before_anything_is_written(
    world: World,
) -> None:
    world.study(trial={"parallelism": {"gpus": 1000}})
    launch = world.launch()
    assert launch.wait() == 2
    (line,) = launch.stderr.read_text().splitlines()
    assert re.search(r"study.yaml:\d+: parallelism.gpus cannot be had: no node has 1000 GPUs", line)
    assert not world.sql("SELECT name FROM studies")
    world.assert_nothing_left()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def status_of(url: str) -> int:
    with urllib.request.urlopen(url, timeout=30) as response:
        response.read()
        return int(response.status)
