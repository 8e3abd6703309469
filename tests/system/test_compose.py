"""docker-compose.yml: valid, closed to strangers, and its commands work together.

No Docker here: each service's own command runs on this machine, with the addresses of the
services put in for their names.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from system.launching import LEASES, Command, World, eventually
from system.test_launch import free_port, is_open

ROOT = Path(__file__).parents[2]
SECRETS = ("POSTGRES_PASSWORD", "RAY_AUTH_TOKEN", "SWEEPER_TOKEN")
TOKEN = "a-token-that-nobody-guesses-0123456789"


def services() -> dict[str, Any]:
    text = (ROOT / "docker-compose.yml").read_text()
    return dict(YAML(typ="safe", pure=True).load(text)["services"])


def test_the_compose_file_is_valid() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    answer = subprocess.run(
        [*command, str(ROOT / "docker-compose.yml")], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_only_the_dashboard_is_published_and_to_this_host_alone() -> None:
    published = {name: s["ports"] for name, s in services().items() if "ports" in s}
    assert published == {"dashboard": ["127.0.0.1:8321:8321"]}


def test_every_image_is_pinned_and_ours_runs_as_nobody_in_particular() -> None:
    for service in services().values():
        assert re.search(r":\d+\.\d+", service["image"]), service["image"]
    stages = (ROOT / "Dockerfile").read_text()
    assert all(re.search(r":\d+\.\d+\.\d+-", line) for line in re.findall("^FROM .*", stages, re.M))
    assert re.findall("^USER (.*)", stages, re.M) == ["sweeper"]


def test_secrets_are_asked_for_and_never_written_down() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for secret in SECRETS:
        uses = re.findall(rf"\$\{{{secret}[^}}]*\}}", text)
        assert uses
        assert all(use.startswith(f"${{{secret}:?") for use in uses)
    example = (ROOT / ".env.example").read_text()
    assert set(re.findall(r"^(\w+)=(.*)$", example, re.M)) == {(name, "") for name in SECRETS}
    assert "/.env" in (ROOT / ".gitignore").read_text().splitlines()


class Cluster:
    """The services as processes of this machine."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ray_port, self.web_port = free_port(), free_port()
        self.environment = {
            "SWEEPER_DB": world.url,
            "SWEEPER_TOKEN": TOKEN,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
            "RAY_ADDRESS": f"127.0.0.1:{self.ray_port}",
            "RAY_TMPDIR": tempfile.mkdtemp(prefix="ray-"),  # its sockets' paths must be short
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            LEASES: world.leases,
        }

    def here(self, text: str) -> str:
        """With what the names and ports of services are here."""
        for name, place in (
            ("ray-head:6379", f"127.0.0.1:{self.ray_port}"),
            ("--port=6379", f"--port={self.ray_port}"),
            ("--port 8321", f"--port {self.web_port}"),
            ("$$", "$"),
        ):
            text = text.replace(name, place)
        return text

    def start(self, name: str) -> Command:
        """Start a service's entrypoint and command as the file has them."""
        service = services()[name]
        command = service["command"]
        if isinstance(command, str):
            words = shlex.split(self.here(command))
        else:
            words = [self.here(word) for word in [*service.get("entrypoint", []), *command]]
        allowed = {"PATH", "PYTHONPATH", "RAY_TMPDIR", LEASES, *service["environment"]}
        environment = {k: v for k, v in (os.environ | self.environment).items() if k in allowed}
        path = self.world.folder / f"{name}.txt"
        with path.open("wb") as out:
            process = subprocess.Popen(
                words,
                cwd=self.world.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.world.commands.append(Command(process, path, path))
        return self.world.commands[-1]


@pytest.mark.system
def test_the_services_work_together(world: World, postgres_url: str) -> None:
    world.url = postgres_url
    world.study()
    (world.folder / "studies").mkdir()
    world.folder.joinpath("study.yaml").rename(world.folder / "studies" / "quickstart.yaml")
    cluster = Cluster(world)
    cluster.start("ray-head")
    eventually(lambda: is_open(cluster.ray_port))
    worker = cluster.start("ray-worker")
    eventually(lambda: "Ray runtime started" in worker.text)
    launch = cluster.start("launch")
    assert launch.wait(300) == 0, launch.text
    assert "matching: the front" in launch.text
    assert world.sql("SELECT count(*) FROM trials WHERE status = 'COMPLETED'") == [(4,)]

    dashboard = cluster.start("dashboard")
    eventually(lambda: is_open(cluster.web_port))
    site = f"http://127.0.0.1:{cluster.web_port}"
    with pytest.raises(urllib.error.HTTPError, match=r"40[13]"):
        urllib.request.urlopen(f"{site}/api/studies", timeout=30)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(f"{site}/api/studies?token={TOKEN}", timeout=30) as answer:
        assert b"matching" in answer.read()
    assert TOKEN not in dashboard.text
