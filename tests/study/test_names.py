"""Which names a study may have: those that the dashboard can address."""

from __future__ import annotations

import pytest

from sweeper.study.names import name_fault


@pytest.mark.parametrize(
    "name", ["hopper-16", "a/b", "</script>", "pareto", "my.study", "...", "a/pareto2", "trial/x"]
)
def test_a_name_may_be_anything_that_can_be_addressed(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (" a", "spaces"),
        ("a\n", "printable"),
        (".", "`..` between slashes"),
        ("a/../b", "`..` between slashes"),
        ("a/pareto", "must not end in `/pareto`"),
        ("a/trial/7/phases/3", "must not end in `/trial/7/phases/3`"),
        ("a/export.json", "must not end in `/export.json`"),
    ],
)
def test_a_name_that_cannot_is_refused_with_the_reason(name: str, why: str) -> None:
    assert why in str(name_fault(name))
