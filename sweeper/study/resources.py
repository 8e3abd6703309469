"""Cores, GPUs and memory: what a node has, what a trial needs, and whether that is free.

A share of a GPU is a share of one device: two halves that are free on two devices hold no trial
that needs a whole one. Ray puts a share where it leaves least; so does this, that what has room
here may start there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from sweeper.rl.foreign import ForeignSpec
from sweeper.trial.spec import TrialSpec

PARTS = 10_000
"""Of a GPU: Ray counts in ten-thousandths, which add up as fractions do not."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a node has for trials, or what is reserved of it."""

    cores: int = 0
    gpus: float = 0.0
    """Whole devices; of what is reserved also a share of one."""
    memory_bytes: int = 0

    def __str__(self) -> str:
        """`4 cores, 1 GPU and 8 GB of memory`, without what there is none of."""
        words = []
        if self.cores:
            words.append(f"{self.cores} core{'s' * (self.cores > 1)}")
        if self.gpus:
            words.append(f"{self.gpus:g} GPU{'s' * (self.gpus > 1)}")
        if self.memory_bytes:
            words.append(f"{self.memory_bytes / 1e9:.3g} GB of memory")
        return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


@dataclass(frozen=True, slots=True)
class Need:
    """What a trial reserves on its node."""

    cores: int = 0
    gpus: float = 0.0
    memory_bytes: int = 0
    is_gpu_optional: bool = False
    """Whether it does without GPUs on a node that has none."""

    def on(self, there: Resources) -> Resources:
        """What it reserves on a node that has so much."""
        gpus = 0.0 if self.is_gpu_optional and not there.gpus else self.gpus
        return Resources(self.cores, gpus, self.memory_bytes)


class Hold(NamedTuple):
    """What is reserved of a node, and on which of its devices."""

    of: Resources
    devices: tuple[int, ...]


def need_of(spec: TrialSpec, *, memory_bytes: float | None = None) -> Need:
    """What a trial needs: the GPUs that it names, else one if its network goes on one."""
    parallelism, algorithm = spec.parallelism, spec.algorithm
    device = "cpu" if isinstance(algorithm, ForeignSpec) else algorithm.network.device
    gpus = parallelism.gpus
    if gpus is None:
        gpus = 0 if device == "cpu" else 1
    return Need(
        parallelism.cores, float(gpus), int(memory_bytes or 0), is_gpu_optional=device == "auto"
    )


def hold(need: Need, there: Resources, held: Iterable[Hold] = ()) -> Hold | None:
    """What a trial gets of a node beside what is held there; None where it has no room."""
    wanted, held = need.on(there), tuple(held)
    cores = there.cores - sum(other.of.cores for other in held)
    memory_bytes = there.memory_bytes - sum(other.of.memory_bytes for other in held)
    devices = _devices(wanted.gpus, int(there.gpus), held)
    if wanted.cores > cores or wanted.memory_bytes > memory_bytes or devices is None:
        return None
    return Hold(wanted, devices)


def lacking(need: Need, nodes: Iterable[Resources]) -> Resources | None:
    """What of `need` no node has, even with nothing else on it: the one resource of which none
    has enough, else all of it, which none has together. None where a node has it all."""
    nodes = tuple(nodes)
    parts = (
        Need(cores=need.cores),
        replace(need, cores=0, memory_bytes=0),
        Need(memory_bytes=need.memory_bytes),
        need,
    )
    for part in parts:
        if not any(hold(part, node) for node in nodes):
            return Resources(part.cores, part.gpus, part.memory_bytes)
    return None


def _devices(gpus: float, n_devices: int, held: Iterable[Hold]) -> tuple[int, ...] | None:
    """The devices with room for so many GPUs, those first that have least; None if too few."""
    if not gpus:
        return ()
    left = [PARTS] * n_devices
    for other in held:
        for device in other.devices:
            left[device] -= _of_each(other.of.gpus)
    able = [device for device in range(n_devices) if left[device] >= _of_each(gpus)]
    able.sort(key=left.__getitem__)
    wanted = max(1, int(gpus))
    return tuple(able[:wanted]) if len(able) >= wanted else None


def _of_each(gpus: float) -> int:
    """Parts of each device that so many GPUs are."""
    return min(round(gpus * PARTS), PARTS)
