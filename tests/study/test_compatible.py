"""Which versions go together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.study.compatible import differences
from sweeper.trial.host import this_host

OURS = replace(this_host(), sweeper="0.1.0", python="3.11.4", torch="2.9.1+cpu", gymnasium="1.2.0")


@pytest.mark.parametrize(
    "same", [{"python": "3.11.13"}, {"torch": "2.9.0+cu130"}, {"gymnasium": "1.2.3"}]
)
def test_what_only_mends_faults_goes_along(same: dict[str, str]) -> None:
    assert differences(OURS, replace(OURS, **same)) is None


def test_everything_that_differs_is_named() -> None:
    theirs = replace(OURS, sweeper="0.1.1", python="3.12.4", torch="3.9.1", gymnasium="none")
    assert differences(OURS, theirs) == (
        "sweeper 0.1.1 (the launcher has 0.1.0), python 3.12.4 (the launcher has 3.11.4), "
        "torch 3.9.1 (the launcher has 2.9.1+cpu), gymnasium none (the launcher has 1.2.0)"
    )
