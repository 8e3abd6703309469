"""What can be known to be wrong before anything is started or written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from sweeper.cli.learners import check_learner, check_learners, make_importable
from sweeper.cli.networks import check_network, check_networks
from sweeper.core.errors import InputError
from sweeper.envs.make import EnvDescription, check_native, describe
from sweeper.study.cluster import find_cluster
from sweeper.study.document import Document
from sweeper.study.spec import LoadedStudy, RaySpec, concurrency_on, load_study, trial_in
from sweeper.trial.cores import lease_cores, usable_cores
from sweeper.trial.spec import TrialSpec

NATIVE, VEC_ENV = "gymnasium", "parallelism.vec_env"


@dataclass(frozen=True, slots=True)
class Plan:
    """A study that can be launched, and where."""

    loaded: LoadedStudy
    cluster: str | None
    """Address of the cluster to join; None starts a local Ray."""


def plan_launch(
    file: Path, *, overrides: list[str], ray_address: str | None, may_wait: bool
) -> Plan:
    """Read a study, make its environment once and look for its cluster. Raises InputError, also
    for cores of this machine that others hold, unless it `may_wait` for them."""
    make_importable(file.parent)
    loaded = load_study(file, overrides=overrides)
    check_environments(loaded)
    check_learners(loaded)
    cluster = cluster_of(loaded, ray_address)
    if cluster is None:  # the nodes of a cluster are known once it is joined
        there_are = len(usable_cores())
        loaded = load_study(file, overrides=overrides, usable_cores=there_are)
        if not may_wait:
            at_once = concurrency_on(loaded.spec, there_are)
            lease_cores(at_once * loaded.spec.trial.parallelism.cores).release()
    return Plan(loaded, cluster)


def plan_run(document: Document, *, overrides: list[str], may_wait: bool) -> TrialSpec:
    """The trial of a document, which this machine can run. Raises InputError, also for cores
    that others hold, unless it `may_wait` for them."""
    make_importable(Path(document.name).parent)
    spec, document = trial_in(document, overrides=overrides)
    there_are = len(usable_cores())
    if spec.parallelism.cores > there_are:
        raise document.error(
            "trial.parallelism.cores",
            f"must be at most {there_are}, the usable cores here, got {spec.parallelism.cores}",
        )
    known = _describe(spec, document)
    check_network(spec, known.observation_space, document)
    if spec.parallelism.vec_env == NATIVE:
        _check_native(spec, document, f"trial.{VEC_ENV}")
    check_learner(spec, document)
    if not may_wait:
        lease_cores(spec.parallelism.cores).release()
    return spec


def check_writable(path: Path) -> None:
    """Whether a file can be written there. Raises InputError."""
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written; name a file in a folder that can")


def check_environments(loaded: LoadedStudy) -> None:
    """Make the environment once, and the native vector implementation of each trial that asks
    for one, the baseline included; SpecError with the line that asks for it if that fails, or
    for a network that cannot read what the environment shows."""
    known = _describe(loaded.spec.trial, loaded.document)
    check_networks(loaded, known.observation_space)
    for key, trial in _native_trials(loaded):
        _check_native(trial, loaded.document, key)


def _native_trials(loaded: LoadedStudy) -> Iterator[tuple[str, TrialSpec]]:
    """Trials with a native vector implementation, each after the key that asks for it."""
    spec = loaded.spec
    searched = spec.search.get(VEC_ENV)
    if searched is not None and NATIVE in (searched.values or ()):
        yield f"search.{VEC_ENV}", spec.trial
    elif searched is None and spec.trial.parallelism.vec_env == NATIVE:
        yield f"trial.{VEC_ENV}", spec.trial
    for named in loaded.queue:
        if named.origin == "baseline" and named.trial.parallelism.vec_env == NATIVE:
            yield f"baseline.set.{VEC_ENV}", named.trial


def _describe(trial: TrialSpec, document: Document) -> EnvDescription:
    env = trial.env
    try:
        return describe(env)
    except InputError as error:
        key = "id" if env.id is not None else "make"
        raise document.error(f"trial.env.{key}", f": {error}") from error


def _check_native(trial: TrialSpec, document: Document, key: str) -> None:
    try:
        check_native(trial.env)
    except InputError as error:
        raise document.error(key, f": {error}") from error


def cluster_of(loaded: LoadedStudy, given: str | None = None) -> str | None:
    """Where `--ray-address`, else the file, says that trials run; see `find_cluster`. Raises
    InputError, also where that is a local Ray and the study is for nodes with labels."""
    cluster = _cluster(loaded, given)
    if cluster is None and loaded.spec.ray.labels:
        raise loaded.document.error(
            "ray.labels",
            ": a local Ray has none; name the cluster (`--ray-address`, `ray.address` or "
            "RAY_ADDRESS), or leave them out",
        )
    return cluster


def _cluster(loaded: LoadedStudy, given: str | None) -> str | None:
    try:
        if given is None:
            return find_cluster(loaded.spec.ray.address)
        return find_cluster(RaySpec(address=given).address)
    except ValidationError:
        raise InputError(
            f"--ray-address must be auto, local or host:port of a cluster, got {given!r}"
        ) from None
    except InputError as error:
        if given is not None:
            raise InputError(f"--ray-address {given}: {error}") from error
        raise loaded.document.error("ray.address", f": {error}") from error
