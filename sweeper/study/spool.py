"""What a launcher measures while its database is away: an append-only file.

Each line is `LENGTH CRC32 JSON`, forced to the disk before `append` returns. Reading stops at
the first line that is not whole, as the last one is after a crash. A launcher has a file of its
own and holds its lock, so that what a dead one left can be told from what a living one writes.
Nothing is deleted before it is in the database, and what is there already is written once
(`Store`): replaying a spool again changes nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import TypeAdapter, ValidationError

from sweeper.core.errors import InputError
from sweeper.core.records import Evaluation, HostRecord, Measurement, RunResult
from sweeper.core.state import state_folder
from sweeper.store.rows import StudyRow

FOLDER = "spool"


@dataclass(frozen=True, slots=True)
class Measured:
    """More of a run's learning curve."""

    run_id: int
    measurements: tuple[Measurement, ...]
    kind: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run, and all that is stored with it."""

    run_id: int
    trial_id: int
    seed_kind: str
    at: datetime
    """UTC."""
    result: RunResult
    evaluations: tuple[Evaluation, ...]
    host: HostRecord | None
    rung: int | None
    bottleneck: str | None
    advice: str | None
    kind: Literal["ended"] = "ended"


Entry = Measured | Ended


class Spool:
    """The file of one launcher; it is there while something waits in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._end = 0
        self._in_memory: list[Entry] = []
        """What the file could not take: its disk is full too."""
        self.count = 0
        """Entries that wait."""

    @classmethod
    def of(cls, study: StudyRow, launcher_id: str) -> Self:
        """The spool that a launcher of a study writes."""
        return cls(spool_folder() / f"{_prefix(study)}{launcher_id}")

    def append(self, entry: Entry) -> None:
        """Keep an entry: on the disk, or in memory for as long as that does not take it."""
        self.count += 1
        self._in_memory.append(entry)
        with suppress(OSError):  # tried again with the next one
            while self._in_memory:
                self._write(_line(self._in_memory[0]))
                del self._in_memory[0]

    def entries(self) -> list[Entry]:
        """All that wait, in order."""
        return [*(read_spool(self.path) if self._file is not None else ()), *self._in_memory]

    def clear(self) -> None:
        """All of them are in the database."""
        self._in_memory.clear()
        self.count = self._end = 0
        if self._file is not None:
            with suppress(OSError):  # a read-only disk: replaying it again changes nothing
                self.path.unlink()
            self.close()

    def close(self) -> None:
        """Leave the file, if there is one, to the next launch; safe to call twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sync_folder(self.path.parent)
        written = 0
        while written < len(line):  # over what an attempt left that failed half-way
            written += os.pwrite(self._file, line[written:], self._end + written)
        os.fsync(self._file)
        self._end += len(line)


def read_spool(path: Path) -> list[Entry]:
    """The entries of a file, up to the first that is not whole. Raises InputError for those of
    another release."""
    try:
        return [_ENTRY.validate_json(data) for data in _whole_lines(path.read_bytes())]
    except ValidationError as error:
        raise InputError(
            f"{path}: holds what another release of sweeper measured; launch the study with that "
            "one, or remove the file"
        ) from error


def merged(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The same in fewer: each run's curve at once, by env steps and without repeats, then what
    ended, in order."""
    curves = defaultdict[int, dict[int, Measurement]](dict)
    for entry in entries:
        if isinstance(entry, Measured):
            curves[entry.run_id] |= {point.env_steps: point for point in entry.measurements}
    for run_id, curve in curves.items():
        yield Measured(run_id, tuple(curve[env_steps] for env_steps in sorted(curve)))
    yield from (entry for entry in entries if isinstance(entry, Ended))


def spools(study: StudyRow) -> dict[Path, int]:
    """Files of the study on this machine -> entries that wait in each."""
    found = {}
    for path in sorted(spool_folder().glob(f"{_prefix(study)}*")):
        with suppress(FileNotFoundError):  # it has just been written to the database
            found[path] = len(list(_whole_lines(path.read_bytes())))
    return found


def is_left(path: Path) -> bool:
    """Whether the launcher that wrote a spool is dead."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def spool_folder() -> Path:
    """Where spools are, of all studies of this user."""
    return state_folder() / FOLDER


_ENTRY: TypeAdapter[Entry] = TypeAdapter(Measured | Ended)


def _line(entry: Entry) -> bytes:
    data = json.dumps(asdict(entry), default=_plain).encode()
    return b"%d %08x %s\n" % (len(data), zlib.crc32(data), data)


def _whole_lines(text: bytes) -> Iterator[bytes]:
    for line in text.split(b"\n")[:-1]:  # JSON escapes every newline; the last ends the file
        head = line.split(b" ", 2)
        if len(head) != 3 or head[:2] != [b"%d" % len(head[2]), b"%08x" % zlib.crc32(head[2])]:
            return
        yield head[2]


def _plain(value: Any) -> Any:
    """A value that JSON does not know: a time, or a number of numpy's."""
    return value.isoformat() if isinstance(value, datetime) else value.item()


def _prefix(study: StudyRow) -> str:
    """How the names of a study's spools begin. A study of the same name in a database that was
    made anew is another one: there, run ids mean other runs."""
    identity = f"{study.name}\n{study.study_id}\n{study.created_at.isoformat()}"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", study.name).strip("-.")[:40]
    return f"{name}-{sha256(identity.encode()).hexdigest()[:16]}-"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
