"""What a study takes along to the nodes of a cluster: its folder, and packages for pip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sweeper.study.spec import LoadedStudy

MOST_BYTES = 100 * 2**20
"""Each node fetches the folder before its first trial, through the head."""
LEFT_BEHIND = (".git", ".venv", "__pycache__", "*.db", "*.db-shm", "*.db-wal", "*.html", "*.pt")
"""What is in a study's folder and no code of it; as in .gitignore, which Ray heeds as well."""


def runtime_env(loaded: LoadedStudy) -> dict[str, Any]:
    """`ray.working_dir` and `ray.pip` in Ray's words. Raises SpecError, with the line, for a
    folder that there is none of, or that is too large to travel."""
    asked, document = loaded.spec.ray, loaded.document
    env: dict[str, Any] = {}
    if asked.pip:
        env["pip"] = list(asked.pip)
    if asked.working_dir:
        folder = Path(document.name).parent
        if isinstance(asked.working_dir, str):
            folder /= asked.working_dir
        if not folder.is_dir():
            raise document.error("ray.working_dir", f": there is no folder {str(folder)!r}")
        total = 0
        for size in _sizes(folder):
            total += size
            if total > MOST_BYTES:
                limit = f"{MOST_BYTES // 2**20} MiB"
                raise document.error(
                    "ray.working_dir",
                    f": more than {limit} in {str(folder.resolve())!r}; at most {limit} travel",
                )
        env["working_dir"] = str(folder.resolve())
        env["excludes"] = list(LEFT_BEHIND)
    return env


def _sizes(folder: Path) -> Iterator[int]:
    """Bytes of each file that travels."""
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _stays(name)]
        for name in files:
            path = Path(root, name)
            if not _stays(name) and path.is_file():
                yield path.stat().st_size


def _stays(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in LEFT_BEHIND)
