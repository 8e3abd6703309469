"""`sweeper run --resume`: a trial that begins where another's training ended."""

from __future__ import annotations

import json
from pathlib import Path

from sweeper.core.errors import InputError
from sweeper.study.document import Document, document_of, dump
from sweeper.trial.checkpoint import Checkpoint
from sweeper.trial.spec import TrialSpec

load = Checkpoint.load


def document_in(checkpoint: Checkpoint, path: Path) -> Document:
    """The trial that was trained, as a document that `--set` can change."""
    trial = json.loads(checkpoint.spec.model_dump_json(exclude_none=True))
    return document_of(dump({"trial": trial}), str(path))


def plan_resume(checkpoint: Checkpoint, spec: TrialSpec, path: str) -> None:
    """Whether anything is left to do. Raises InputError."""
    budget = spec.budget
    if budget.seconds is not None:
        key, of, spent = "seconds", budget.seconds, checkpoint.elapsed_seconds
    else:
        assert budget.env_steps is not None
        key, of, spent = "env_steps", float(budget.env_steps), float(checkpoint.env_steps)
    if spent >= of:
        raise InputError(
            f"{path}: has spent its budget, {spent:,.0f} of {of:,.0f} {key.replace('_', ' ')}; "
            f"give it a larger one: --set budget.{key}={2 * spent:.0f}"
        )
