"""What can be known to be wrong before anything is started or written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from sweeper.core.errors import InputError
from sweeper.envs.make import describe
from sweeper.envs.spec import EnvSpec
from sweeper.study.cluster import find_cluster
from sweeper.study.document import Document
from sweeper.study.spec import LoadedStudy, RaySpec, load_study, read_trial
from sweeper.trial.cores import usable_cores
from sweeper.trial.spec import TrialSpec


@dataclass(frozen=True, slots=True)
class Plan:
    """A study that can be launched, and where."""

    loaded: LoadedStudy
    cluster: str | None
    """Address of the cluster to join; None starts a local Ray."""


def plan_launch(file: Path, *, overrides: list[str], ray_address: str | None) -> Plan:
    """Read a study, make its environment once and look for its cluster. Raises InputError."""
    loaded = load_study(file, overrides=overrides)
    check_environment(loaded.spec.trial.env, loaded.document)
    cluster = _cluster(loaded, ray_address)
    if cluster is None:  # the nodes of a cluster are known once it is joined
        loaded = load_study(file, overrides=overrides, usable_cores=len(usable_cores()))
    return Plan(loaded, cluster)


def plan_run(file: Path, *, overrides: list[str]) -> TrialSpec:
    """Read a trial that this machine can run. Raises SpecError."""
    spec, document = read_trial(file, overrides=overrides)
    there_are = len(usable_cores())
    if spec.parallelism.cores > there_are:
        raise document.error(
            "trial.parallelism.cores",
            f"must be at most {there_are}, the usable cores here, got {spec.parallelism.cores}",
        )
    check_environment(spec.env, document)
    return spec


def check_environment(env: EnvSpec, document: Document) -> None:
    """Make the environment once; SpecError with the line that names it if that fails."""
    try:
        describe(env)
    except InputError as error:
        key = "id" if env.id is not None else "make"
        raise document.error(f"trial.env.{key}", f": {error}") from error


def _cluster(loaded: LoadedStudy, given: str | None) -> str | None:
    """Where `--ray-address`, else the file, says that trials run; see `find_cluster`."""
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
