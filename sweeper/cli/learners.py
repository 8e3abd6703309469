"""Whether what a study names as its learners can be made, before anything is started."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from pydantic import ValidationError

from sweeper.core.errors import InputError
from sweeper.core.spec import Spec
from sweeper.rl.custom import checked_parameters, parameter_model
from sweeper.rl.foreign import CustomSpec, SB3Spec
from sweeper.study.complaint import complaint
from sweeper.study.document import Document
from sweeper.study.spec import LoadedStudy
from sweeper.trial.spec import TrialSpec


def make_importable(folder: Path) -> None:
    """Environments and learners that a study names by a dotted path may lie next to it; what is
    installed goes first."""
    path = str(folder.resolve())
    if path not in sys.path:
        sys.path.append(path)


def check_learner(trial: TrialSpec, document: Document, where: str = "trial") -> None:
    """Raise SpecError, with the line, for Stable-Baselines3 that is not installed, for a class
    that is not found or is no learner, and for parameters that its `Spec` refuses.

    where: the section of the document that sets the algorithm's keys.
    """
    found = _complaint(trial)
    if found is not None:
        path, message = found
        raise document.error(f"{where}.{path}", message)


def check_learners(loaded: LoadedStudy) -> None:
    """The same for every trial that the file names, and for each bound and choice searched."""
    document = loaded.document
    check_learner(loaded.spec.trial, document)
    enqueued = 0
    for configuration in loaded.queue:
        if configuration.origin == "baseline":
            check_learner(configuration.trial, document, "baseline.set")
        else:
            check_learner(configuration.trial, document, f"enqueue.{enqueued}")
            enqueued += 1
    for key, trial in loaded.space.corners():
        found = _complaint(trial)
        if found is None:
            continue
        path, message = found
        if not key.startswith(f"{path}."):
            colon = "" if message.startswith(":") else ": it "
            message = f"makes {path} wrong{colon}{message}"
        raise document.error(f"search.{key}", message)


def _complaint(trial: TrialSpec) -> tuple[str, str] | None:
    """(path from the trial, message that continues it), or None."""
    algorithm = trial.algorithm
    if isinstance(algorithm, SB3Spec):
        if importlib.util.find_spec("stable_baselines3") is None:
            needs = "needs Stable-Baselines3; type `pip install 'sweeper[sb3]'`"
            return "algorithm.kind", f": {algorithm.kind} {needs}"
        return None
    if not isinstance(algorithm, CustomSpec):
        return None
    try:
        checked_parameters(algorithm)
    except ValidationError as error:
        model = parameter_model(algorithm.kind)
        known = model if model is not None and issubclass(model, Spec) else Spec
        path, message = complaint(error, known, algorithm.parameters)
        return ".".join(filter(None, ("algorithm", path))), message
    except InputError as error:
        return "algorithm.kind", f": {error}"
    return None
