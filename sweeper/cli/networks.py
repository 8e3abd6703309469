"""Whether the networks that a study names can read its environment's observations."""

from __future__ import annotations

from typing import Any

import gymnasium

from sweeper.core.errors import InputError
from sweeper.rl.features import features_for
from sweeper.rl.spec import A2CSpec, ACKTRSpec, PPOSpec
from sweeper.study.document import Document
from sweeper.study.spec import LoadedStudy
from sweeper.trial.spec import TrialSpec

CHOOSING = (
    "algorithm.network.kind",
    "algorithm.network.convolutions",
    "algorithm.network.channels",
)
"""What decides which observations a network can read."""


def check_network(
    trial: TrialSpec, observations: gymnasium.Space[Any], document: Document, key: str | None = None
) -> None:
    """Raise SpecError, with the line, for a network that is not for such observations.

    key: of the document, where it is not the trial's own that chooses the network.
    """
    if not isinstance(trial.algorithm, PPOSpec | A2CSpec | ACKTRSpec):
        return
    try:
        features_for(observations, trial.algorithm.network)
    except InputError as error:
        raise document.error(key or f"trial.{CHOOSING[0]}", f": {error}") from error


def check_networks(loaded: LoadedStudy, observations: gymnasium.Space[Any]) -> None:
    """The same for each choice of a network that is searched, and for the baseline."""
    spec, document = loaded.spec, loaded.document
    if not any(path in spec.search for path in CHOOSING):
        check_network(spec.trial, observations, document)
    for key, trial in loaded.space.corners():
        if key.startswith(CHOOSING):
            check_network(trial, observations, document, f"search.{key}")
    for configuration in loaded.queue:
        if configuration.origin == "baseline":
            check_network(
                configuration.trial, observations, document, f"baseline.set.{CHOOSING[0]}"
            )
