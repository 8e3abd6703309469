"""Thinning, against its invariants on any stream cut into any batches."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sweeper.store.downsample import POINTS_PER_RUN, Point, thin


def stream(example, batches):
    """What is stored after each of the batches, as the store applies them."""
    stored = []
    for batch in batches:
        tail = [Point(row.env_steps, row.progress) for row in stored[:-3:-1]]
        kept, superseded = thin(batch, stored=tail)
        stored = [row for row in stored if row.env_steps != superseded] + kept
    return stored


@given(
    increments=st.lists(st.integers(1, 400), min_size=1, max_size=200),
    cuts=st.sets(st.integers(0, 200)),
)
def test_each_share_of_the_budget_keeps_its_first_row_and_the_newest_is_kept(
    example, increments, cuts
):
    total, rows = sum(increments), []
    for increment in increments:
        steps = increment + (rows[-1].env_steps if rows else 0)
        rows.append(example.measurement(steps, steps / total))
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(rows)), len(rows)]
    batches = [rows[a:b] for a, b in pairwise(edges)]

    first_of_share = {}
    for row in rows:
        share = min(int(row.progress * POINTS_PER_RUN), POINTS_PER_RUN - 1)
        first_of_share.setdefault(share, row)
    expected = [*first_of_share.values()]
    if expected[-1] is not rows[-1]:
        expected.append(rows[-1])
    assert stream(example, batches) == expected


def test_rows_that_are_stored_already_are_dropped(example):
    rows = [example.measurement(steps, steps / 100) for steps in (10, 20, 30)]
    stored = [Point(20, 0.2), Point(10, 0.1)]
    assert thin(rows, stored=stored) == ([rows[2]], None)
    assert thin(rows[:2], stored=stored) == ([], None)
