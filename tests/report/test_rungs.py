from __future__ import annotations

import pytest

from sweeper.report.rungs import DEFAULT_RUNGS, study_rungs
from sweeper.study.spec import PrunerSpec


@pytest.mark.parametrize(
    ("text", "rungs"),
    [
        ("pruner: {kind: pareto_rungs, rungs: [0.25, 0.5]}", (0.25, 0.5)),
        ("pruner: {kind: pareto_rungs}", DEFAULT_RUNGS),
        ("pruner: {kind: none, rungs: [0.5]}", ()),
        ("study: s", ()),
        ("pruner: [unclosed", ()),
        ("pruner: {kind: pareto_rungs, rungs: [early]}", ()),
    ],
)
def test_rungs_are_those_of_the_stored_file(make_study, text, rungs):
    assert study_rungs(make_study(spec_yaml=text)) == rungs


def test_a_file_that_names_no_rungs_means_those_that_are_drawn():
    assert PrunerSpec().rungs == DEFAULT_RUNGS
