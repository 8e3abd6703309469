"""The file that keeps what a launcher measures while its database is away."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.core.errors import InputError
from sweeper.core.records import Evaluation, HostRecord, Measurement, RunStatus
from sweeper.store.rows import StudyRow
from sweeper.study.executor import lost_result
from sweeper.study.spool import Ended, Measured, Spool, is_left, merged, read_spool, spools

HOST = HostRecord("a", "b", "c", 2, 2**40, None, "Linux", "3.12", "2.11", "1.2", "0.1")


def measured(run_id: int, *env_steps: int, **changes: Any) -> Measured:
    return Measured(
        run_id,
        tuple(Measurement(0.5, 0.1, n, 1, 0, None, None, 64.0, **changes) for n in env_steps),
    )


def ended(run_id: int, reason: str | None = None) -> Ended:
    result = replace(lost_result(RunStatus.ERROR, reason or "no\nreason"), leased_cores=(1, 3))
    episodes = (
        Evaluation(1, 7, deterministic=True, episode_return=-1.5, length=8, truncated=True),
    )
    at = datetime(2030, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
    return Ended(run_id, 1, "tuning", at, result, episodes, HOST, None, "envs", "more of them")


def study_row(study_id: int = 1, **changes: Any) -> StudyRow:
    values = dict.fromkeys(StudyRow.__dataclass_fields__) | {
        "name": "a study/of mine",
        "study_id": study_id,
        "created_at": datetime(2030, 1, 2, 3, 4, 5, 678900, tzinfo=UTC),
    }
    return StudyRow(**(values | changes))


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "made when it is needed" / "spool")
    yield spool
    spool.clear()


def test_what_is_appended_is_read_back_equal_and_in_order(spool: Spool) -> None:
    entries = [measured(1, 64, 128, approx_kl=0.25), ended(1, "a line\nand a traceback\x00\ud7ff")]
    for entry in entries:
        spool.append(entry)
    assert read_spool(spool.path) == spool.entries() == entries
    assert spool.count == 2
    assert spool.path.stat().st_mode & 0o077 == 0


def test_numbers_of_numpy_and_numbers_that_are_not_finite_are_kept(spool: Spool) -> None:
    spool.append(measured(1, np.int64(64), entropy=np.float32(0.5), grad_norm=math.inf))
    ((measurement,),) = (entry.measurements for entry in read_spool(spool.path))  # type: ignore[union-attr]
    assert (measurement.env_steps, measurement.entropy) == (64, 0.5)
    assert measurement.grad_norm == math.inf


def test_nothing_is_there_before_the_first_entry_and_after_the_last(spool: Spool) -> None:
    assert not spool.path.parent.exists()
    spool.append(ended(1))
    spool.clear()
    assert not spool.path.exists()
    assert spool.count == 0
    spool.append(ended(2))
    assert spool.entries() == [ended(2)]


@given(st.data())
def test_a_file_cut_anywhere_holds_the_entries_that_are_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "spool"
    spool, entries, ends = Spool(path), [measured(1, 64), ended(1), measured(2, 64, 128)], [0]
    for entry in entries:
        spool.append(entry)
        ends.append(path.stat().st_size)
    at = data.draw(st.integers(0, ends[-1]))
    whole = path.read_bytes()
    path.write_bytes(whole[:at])
    assert read_spool(path) == entries[: sum(end <= at for end in ends[1:])]
    flipped = data.draw(st.integers(0, ends[-1] - 1))
    path.write_bytes(whole[:flipped] + bytes([whole[flipped] ^ 1]) + whole[flipped + 1 :])
    assert read_spool(path) == entries[: sum(end <= flipped for end in ends[1:])]
    spool.clear()


def test_what_the_disk_does_not_take_is_kept_in_memory_and_written_once_it_does(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.append(measured(1, 64))
    size, pwrite = spool.path.stat().st_size, os.pwrite

    def half(file: int, line: bytes, offset: int) -> int:
        if offset > size:
            raise OSError(28, "No space left on device")
        return pwrite(file, line[: len(line) // 2], offset)

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", half)
        spool.append(ended(1))
        spool.append(measured(2, 64))
    assert read_spool(spool.path) == [measured(1, 64)]
    assert spool.entries() == [measured(1, 64), ended(1), measured(2, 64)]
    spool.append(ended(2))
    assert read_spool(spool.path) == [measured(1, 64), ended(1), measured(2, 64), ended(2)]


def test_a_run_s_curve_is_merged_and_goes_before_its_end() -> None:
    entries = [measured(1, 64), measured(2, 8), ended(1), measured(1, 64, 128), ended(2)]
    assert list(merged(entries)) == [measured(1, 64, 128), measured(2, 8), ended(1), ended(2)]


def test_a_spool_belongs_to_one_study_of_one_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    spool = Spool.of(study_row(), "launcher")
    spool.append(ended(1))
    assert spools(study_row()) == {spool.path: 1}
    assert spools(study_row(2)) == spools(study_row(name="another")) == {}
    assert spools(study_row(created_at=datetime(2030, 1, 2, tzinfo=UTC))) == {}
    assert not is_left(spool.path)  # its launcher lives
    left = spool.path.read_bytes()
    spool.clear()
    spool.path.write_bytes(left)
    assert is_left(spool.path)


def test_what_another_release_wrote_is_told_and_kept(spool: Spool) -> None:
    import zlib

    data = b'{"kind": "something else"}'
    spool.append(ended(1))
    with spool.path.open("ab") as file:
        file.write(b"%d %08x %s\n" % (len(data), zlib.crc32(data), data))
    with pytest.raises(InputError, match="holds what another release of sweeper measured"):
        read_spool(spool.path)
    assert spool.path.exists()
