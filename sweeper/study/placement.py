"""Whether the nodes hold what a study would run, asked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sweeper.study.document import Document
from sweeper.study.resources import Resources, need_of
from sweeper.study.space import CORES
from sweeper.study.spec import LoadedStudy
from sweeper.trial.spec import TrialSpec

GPUS, DEVICE = "parallelism.gpus", "algorithm.network.device"
MEMORY = "ray.memory_bytes"
DECIDING = (CORES, GPUS, DEVICE, "algorithm.kind")
"""From these follows what a trial needs."""


def needs_more_than_cores(loaded: LoadedStudy) -> bool:
    """Whether a node may lack what the study needs for all the cores that it has."""
    needs = (need_of(trial) for _, trial in _trials(loaded))
    return loaded.spec.ray.memory_bytes is not None or any(
        need.gpus and not need.is_gpu_optional for need in needs
    )


def check_placement(loaded: LoadedStudy, lacking: Callable[[TrialSpec], Resources | None]) -> None:
    """Raise SpecError, with the line, for a trial of the study that no node could hold.

    lacking: see `Executor`.
    """
    for sections, trial in _trials(loaded):
        lack = lacking(trial)
        if lack is not None:
            key = _to_blame(lack, sections, loaded.document)
            raise loaded.document.error(key, f"cannot be had: no node has {lack}")


def _trials(loaded: LoadedStudy) -> Iterator[tuple[tuple[str, ...], TrialSpec]]:
    """(sections that say what it needs, a trial), one at least for each need in the study."""
    enqueued = 0
    for configuration in loaded.queue:
        if configuration.origin == "baseline":
            yield ("baseline.set", "trial"), configuration.trial
        else:
            yield (f"enqueue.{enqueued}", "trial"), configuration.trial
            enqueued += 1
    for trial in loaded.space.variants(DECIDING):
        yield ("search", "trial"), trial


def _to_blame(lack: Resources, sections: tuple[str, ...], document: Document) -> str:
    """The key that asks for it, as far as the document has one."""
    if lack.gpus:
        keys = [f"{section}.{path}" for path in (GPUS, DEVICE) for section in sections]
    elif lack.memory_bytes:
        keys = [MEMORY]
    else:
        keys = [f"{section}.{CORES}" for section in sections]
    return next((key for key in keys if key in document.places), keys[-1])
