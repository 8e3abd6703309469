"""At which shares of its budget a study prunes, by its file as it was launched."""

from __future__ import annotations

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sweeper.store.rows import StudyRow

DEFAULT_RUNGS = (0.111, 0.333)
"""Where the file says `kind: pareto_rungs` and no more."""


def study_rungs(study: StudyRow) -> tuple[float, ...]:
    """Shares of the budget, rising; none where nothing is pruned."""
    try:
        match YAML(typ="safe", pure=True).load(study.spec_yaml):
            case {"pruner": {"kind": "pareto_rungs", "rungs": [*rungs]}}:
                return tuple(map(float, rungs))
            case {"pruner": {"kind": "pareto_rungs"}}:
                return DEFAULT_RUNGS
    except (YAMLError, TypeError, ValueError):  # of a release that wrote it otherwise
        pass
    return ()
