"""`ray.pip`: packages that only the nodes get, on a cluster that was started by hand."""

from __future__ import annotations

import os
import re
import site
import subprocess
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.launching import LEASES, World, eventually

pytestmark = pytest.mark.system

ENVIRONMENT = """
import os, pathlib, worlds

try:
    import tiny
except ModuleNotFoundError:  # the launcher's, which looks at the spaces alone
    tiny = None

class Tiny(worlds.Matching):
    def __init__(self, folder):
        if tiny is not None:
            pathlib.Path(folder, str(os.getpid())).write_text(tiny.__file__)
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The package `tiny`."""
    path = tmp_path / "tiny-0.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny.py", "")
        info = "tiny-0.1.dist-info"
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 0.1\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in file.namelist()))
    return path


@pytest.fixture
def address(world: World, tmp_path: Path) -> Iterator[str]:
    """A head whose Python is a virtual environment, which Ray copies for each set of packages:
    one that has nothing but a reference to ours."""
    pytest.importorskip("virtualenv")  # with which Ray makes it
    folder = tmp_path / "python"
    venv.create(folder, symlinks=True, with_pip=True)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/*/site-packages")
    ours = "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    (packages / "ours.pth").write_text(ours)
    options = ["--head", "--block", "--port=0", "--num-cpus=1", "--include-dashboard=false"]
    with (
        tempfile.TemporaryDirectory(prefix="ray-") as session,  # near the root: it holds sockets
        (tmp_path / "head.txt").open("w") as log,
        subprocess.Popen(
            [python, "-m", "ray.scripts.scripts", "start", *options, f"--temp-dir={session}"],
            env=os.environ | {LEASES: world.leases, "RAY_AUTH_MODE": "disabled"},
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as head,
    ):
        try:
            said = re.compile(r"--address='(.+?)'")
            found = eventually(lambda: said.search((tmp_path / "head.txt").read_text()))
            yield found[1]
        finally:
            head.terminate()


def test_what_pip_installs_is_there_for_the_environments_of_every_node(
    world: World, wheel: Path, address: str
) -> None:
    (world.folder / "tinied.py").write_text(ENVIRONMENT)
    seen = world.folder / "seen"
    seen.mkdir()
    env = {"make": "tinied:Tiny", "kwargs": {"folder": str(seen)}}
    world.study(
        stop={"trials": 1}, ray={"pip": [str(wheel)]}, trial={"env": env, "budget": {"seconds": 1}}
    )
    launch = world.start("launch", "study.yaml", "--ray-address", address)
    assert launch.wait(240) == 0, launch.text
    assert world.sql("SELECT status FROM runs") == [("COMPLETED",)]
    places = [path.read_text() for path in seen.iterdir()]
    assert len(places) > 1  # the trial's process, and its environments'
    assert all(re.search(r"/runtime_resources/pip/.+/tiny\.py$", place) for place in places)
