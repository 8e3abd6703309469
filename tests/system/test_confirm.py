"""`sweeper confirm`, as its user calls it."""

from __future__ import annotations

import pytest
from system.launching import World

pytestmark = pytest.mark.system


def test_a_front_is_confirmed_afterwards_and_shown_beside_its_tuning_values(world: World) -> None:
    world.study(baseline={}, stop={"trials": 3})
    assert world.launch().wait() == 0
    confirm = world.start("confirm", "matching", "--top", "1", "--seeds", "2")
    assert confirm.wait() == 0, confirm.text
    tested = world.sql("SELECT DISTINCT trial_id FROM runs WHERE kind = 'confirm'")
    assert len(tested) in (1, 2)  # the best, and the baseline, which may be it
    assert world.sql("SELECT DISTINCT seed_kind, status FROM runs WHERE kind = 'confirm'") == [
        ("test", "COMPLETED")
    ]
    assert world.sql(
        "SELECT count(*) FROM runs a JOIN runs b "
        "ON a.run_id < b.run_id AND b.started_at < a.ended_at"
        " WHERE a.kind = 'confirm' AND b.kind = 'confirm'"
    ) == [(0,)]  # one at a time
    assert "matching: tuning and test seeds" in confirm.text
    assert "final return, test" in confirm.text
    assert "1 (baseline)" in confirm.text
    world.assert_nothing_left()

    short = world.start("confirm", "matching", "--top", "1", "--seeds", "1", "--budget", "0.3s")
    assert short.wait() == 0, short.text
    assert "tuning and test seeds, 0.3 s each" in short.text
    assert world.sql("SELECT max(n_test_runs) FROM trial_results") == [(2,)]


def test_what_cannot_be_confirmed_is_one_line(world: World) -> None:
    world.study()
    assert world.start("confirm", "matching").wait() == 2
    bad = world.start("confirm", "matching", "--budget", "soon")
    assert bad.wait() == 2
    assert bad.stderr.read_text() == (
        "sweeper: --budget must be like 10s or 20000steps, got 'soon'\n"
    )
