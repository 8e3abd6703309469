"""`StudySpec`: a study file, validated; and the two ways to read one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sweeper.core.clock import BudgetSpec
from sweeper.core.errors import SpecError
from sweeper.core.spec import Spec, as_tuple, invalid
from sweeper.report.rungs import DEFAULT_RUNGS
from sweeper.study.document import Document, dump, read_document, validate
from sweeper.study.names import name_fault
from sweeper.study.parameters import Parameter, ParamValue
from sweeper.study.space import SearchSpace
from sweeper.trial.spec import TrialSpec

Objective = Literal[
    "final_return",
    "training_return",
    "steps_per_second",
    "seconds_to_threshold",
    "core_seconds",
    "return_area",
]
Metric = Literal[
    "final_return",
    "training_return",
    "steps_per_second",
    "seconds_to_threshold",
    "core_seconds",
    "return_area",
    "peak_rss_bytes",
    "cpu_utilization",
]
Direction = Literal["maximize", "minimize"]
MEANINGLESS = {"stop", "concurrency", "priority", "ray", "replicate", "confirm"}
"""Keys that say how much is run and where, and nothing of what a result means."""


class StopSpec(Spec):
    """When the study ends; with both, whichever comes first."""

    trials: int | None = Field(default=None, ge=1, le=1_000_000)
    """Trials of any outcome, the baseline and the enqueued ones among them; re-runs
    (`replicate`) and confirmations come on top."""
    hours: float | None = Field(default=None, gt=0)
    """Hours since the launch, but for those that it waits for its turn to have cores. Running
    trials are finished."""

    @model_validator(mode="after")
    def _ends(self) -> StopSpec:
        if self.trials is None and self.hours is None:
            raise invalid("", "give `trials`, `hours`, or both")
        return self


class ConstraintSpec(Spec):
    """Bounds within which a trial may stand on the front."""

    min: float | None = None
    """Least value allowed."""
    max: float | None = None
    """Greatest value allowed."""

    @model_validator(mode="after")
    def _bounds(self) -> ConstraintSpec:
        if self.min is None and self.max is None:
            raise invalid("", "give `min`, `max`, or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise invalid("min", f"must be at most max = {self.max:g}, got {self.min:g}")
        return self


class SamplerSpec(Spec):
    """Who suggests the next trial."""

    kind: Literal["auto", "tpe", "gp", "nsga2", "qmc", "random", "grid"] = "auto"
    """`auto` is tpe. tpe: independent Parzen estimators; gp: Gaussian process with expected
    hypervolume improvement; nsga2: evolution, for hundreds of trials; qmc: scrambled Sobol
    points; random; grid: every valid combination, no continuous parameters."""
    seed: int = Field(default=0, ge=0)
    """Same seed and same past trials, same suggestion."""
    time_limit: float = Field(default=10.0, gt=0)
    """Seconds that a suggestion may take; once one has taken longer, a faster sampler takes
    over (gp: tpe; others: qmc)."""


class PrunerSpec(Spec):
    """Whether trials that fall behind are ended early."""

    kind: Literal["none", "pareto_rungs"] = "none"
    """`pareto_rungs`: at each rung a first run is ended if enough of those that were there
    before it had both a better training return and a better speed. Nobody waits for anybody;
    the baseline, re-runs and confirmations are never ended."""
    rungs: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], as_tuple] = Field(
        default=DEFAULT_RUNGS, min_length=1, max_length=8
    )
    """Shares of the budget, rising. The learning-rate schedule still belongs to all of it."""

    @model_validator(mode="after")
    def _rise(self) -> PrunerSpec:
        for index, (before, after) in enumerate(pairwise(self.rungs), start=1):
            if after <= before:
                raise invalid(f"rungs.{index}", f"must be more than {before:g}, got {after:g}")
        return self


class ReplicateSpec(Spec):
    """Re-runs, with other seeds, of trials that the front hangs on."""

    share: float = Field(default=0.25, ge=0, le=0.9)
    """Of all runs of the search; they come on top of `stop.trials`. 0: every trial runs once."""
    max_seeds: int = Field(default=5, ge=1, le=100)
    """Runs of one trial, the first among them."""


class ConfirmSpec(Spec):
    """The front, re-run on fresh seeds once the search is over: `sweeper confirm`."""

    top: int = Field(default=5, ge=1, le=100)
    """Trials of the front, those first that the front would miss most; and the baseline."""
    seeds: int = Field(default=5, ge=1, le=100)
    """Runs of each. Neither they nor their evaluations share a seed with the search."""


class WarmStartSpec(Spec):
    """Another study's results to begin with: they inform the sampler and nothing else."""

    study: str = Field(min_length=1)
    """Its name in the same database; same environment, same budget."""


class BaselineSpec(Spec):
    """The trial that speed-ups are measured against; it runs first."""

    set: dict[str, Any] = Field(default_factory=dict)
    """Dotted path into `trial` -> value; searched or not, in the searched range or not."""
    budget: BudgetSpec | None = None
    """A budget of its own; the trial's otherwise."""


class RaySpec(Spec):
    """Where trials run."""

    address: str = Field(default="auto", pattern=r"^(auto|local|(ray://)?[\w.-]+:\d{1,5})$")
    """`auto` joins the cluster that the environment variable RAY_ADDRESS names and starts a
    local Ray where it names none; `local` always starts one; `host:port` joins that cluster."""
    working_dir: bool | Annotated[str, Field(min_length=1)] = False
    """Whether the study's folder, or another (relative to it), is sent to the nodes of a cluster,
    where its modules are importable: at most 100 MiB. A local Ray sees the folder as it is."""
    pip: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], as_tuple] = ()
    """What pip installs for the study on each node of a cluster, before its first trial there."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Only nodes of a cluster with all of these labels get trials: what `ray start --labels` gave
    them, and Ray's own (`ray.io/accelerator-type: H100`)."""
    memory_bytes: float | None = Field(default=None, gt=0)
    """Memory that a trial reserves on its node, which has what `ray start --memory` says, or what
    was free as Ray started there. Nothing holds a trial to it."""


class StudySpec(Spec):
    """A study file: what is tried, on what budget, and what counts as good."""

    study: str = Field(min_length=1, max_length=200)
    """Its name in the results database. The same name continues the same study."""
    objectives: dict[Objective, Direction] = Field(
        default={"final_return": "maximize", "steps_per_second": "maximize"},
        min_length=2,
        max_length=3,
    )
    """Two or three measured quantities -> `maximize` or `minimize`."""
    constraints: dict[Metric, ConstraintSpec] = Field(default_factory=dict)
    """Measured quantity -> bounds. Trials outside them inform the search but never stand on
    the front."""
    must_learn: bool = True
    """Whether a trial with fewer than 10 updates, or whose final return does not beat that of a
    policy that was not trained (measured once a study), is treated as one outside constraints."""
    stop: StopSpec
    """When the study ends."""
    concurrency: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Trials at once; `auto` is as many as the nodes have room for."""
    priority: int = Field(default=0, ge=-100, le=100)
    """Of the studies that are launched on one machine, the higher have its cores first; those of
    the same priority in the order they came."""
    sampler: SamplerSpec = SamplerSpec()
    """Who suggests the next trial."""
    pruner: PrunerSpec = PrunerSpec()
    """Whether trials that fall behind are ended early."""
    replicate: ReplicateSpec = ReplicateSpec()
    """Re-runs of trials that may or may not belong on the front."""
    confirm: ConfirmSpec | None = None
    """The front, re-run on fresh seeds once the search is over."""
    trial: TrialSpec
    """The trial that the search starts from; `sweeper run` takes this section alone."""
    search: dict[str, Parameter] = Field(min_length=1)
    """Dotted path into `trial` -> what is searched there."""
    baseline: BaselineSpec | None = None
    """The trial that speed-ups are measured against; it runs first."""
    enqueue: Annotated[tuple[dict[str, Any], ...], as_tuple] = ()
    """Configurations to try before anything is suggested: dotted path -> value, each in its
    searched range."""
    warm_start: WarmStartSpec | None = None
    """Another study's results to begin with."""
    ray: RaySpec = RaySpec()
    """Where trials run."""

    @model_validator(mode="after")
    def _consistent(self) -> StudySpec:
        if fault := name_fault(self.study):
            raise invalid("study", fault)
        if self.sampler.kind == "grid":
            for path, parameter in self.search.items():
                if parameter.values is None:
                    raise invalid(f"search.{path}", "needs a `step`: the grid has no end without")
        return self


@dataclass(frozen=True)
class Configuration:
    """A trial that the study file names."""

    origin: Literal["baseline", "enqueued"]
    params: Mapping[str, ParamValue]
    """What of it is in the search space."""
    trial: TrialSpec


@dataclass(frozen=True)
class LoadedStudy:
    """A study file, ready to launch."""

    spec: StudySpec
    space: SearchSpace
    queue: tuple[Configuration, ...]
    """What runs first: the baseline, then what is enqueued."""
    document: Document
    sha256: str
    """Of everything that gives results their meaning. The comments, the layout and the keys
    of MEANINGLESS may change without making another version of the study."""
    text: str
    """The file as it was read, or its data where something was overridden."""


def load_study(
    path: str | Path, *, overrides: Sequence[str] = (), usable_cores: int | None = None
) -> LoadedStudy:
    """Read, override (`path=value`), validate and resolve a study file.

    `usable_cores` is the number of cores of the largest node, where that is known. Raises
    SpecError: one line with the file, the line and what is allowed.
    """
    return study_of(read_document(path), overrides=overrides, usable_cores=usable_cores)


def study_of(
    document: Document, *, overrides: Sequence[str] = (), usable_cores: int | None = None
) -> LoadedStudy:
    """The study that a document holds: `load_study` for text that is in no file."""
    for assignment in overrides:
        document = document.override(assignment)
    spec = validate(document, StudySpec)
    try:
        space = SearchSpace(spec.trial, spec.search, usable_cores=usable_cores)
        queue = _queue(spec, space)
    except PydanticCustomError as error:
        raise _located(document, error) from None
    meaning = spec.model_dump_json(exclude=MEANINGLESS)
    digest = hashlib.sha256(meaning.encode()).hexdigest()
    text = dump(document.data) if overrides else document.text
    return LoadedStudy(spec, space, queue, document, digest, text)


def load_trial(path: str | Path, *, overrides: Sequence[str] = ()) -> TrialSpec:
    """The `trial` section of a study file, or of a file that has no other.

    Overrides are paths into the trial, with or without a leading `trial.`. Raises SpecError.
    """
    return read_trial(path, overrides=overrides)[0]


def read_trial(path: str | Path, *, overrides: Sequence[str] = ()) -> tuple[TrialSpec, Document]:
    """As `load_trial`, with the document that says where each key was written."""
    return trial_in(read_document(path), overrides=overrides)


def trial_in(document: Document, *, overrides: Sequence[str] = ()) -> tuple[TrialSpec, Document]:
    """The section `trial` of a document, and that with the overrides. Raises SpecError."""
    for assignment in overrides:
        document = document.override(assignment, section="trial")
    return validate(document, TrialSpec, section="trial"), document


def study_schema() -> dict[str, Any]:
    """The JSON Schema of a study file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **StudySpec.model_json_schema(),
        "title": "A sweeper study",
    }


def concurrency_on(spec: StudySpec, cores: int) -> int:
    """Trials at once on `cores` cores, as far as the file's own cores a trial tell."""
    fitting = max(1, cores // spec.trial.parallelism.cores)
    return fitting if spec.concurrency == "auto" else min(fitting, spec.concurrency)


def cores_at_once(spec: StudySpec, cores: int) -> int:
    """Of `cores` cores, as many as the study's trials take together."""
    searched = spec.search.get("parallelism.cores")
    if searched is not None and spec.concurrency == "auto":
        return cores
    each = spec.trial.parallelism.cores
    if searched is not None:
        each = max([each, *(value for value in searched.values or () if isinstance(value, int))])
    return min(cores, concurrency_on(spec, cores) * each)


def most_runs(spec: StudySpec, trials: int) -> int:
    """Runs of a search of so many trials: each once, and the share of re-runs on top."""
    return int(trials / (1.0 - spec.replicate.share) + 1e-9)


def expected_seconds(spec: StudySpec, concurrency: int) -> float | None:
    """Training seconds of the search: runs x budget / concurrency, or its hours if they are
    less. None when neither bounds it. Starting up, evaluating and confirming come on top."""
    bounds: list[float] = []
    if spec.stop.hours is not None:
        bounds.append(spec.stop.hours * 3600)
    if spec.stop.trials is not None and spec.trial.budget.seconds is not None:
        runs = most_runs(spec, spec.stop.trials)
        bounds.append(runs * spec.trial.budget.seconds / concurrency)
    return min(bounds, default=None)


def _queue(spec: StudySpec, space: SearchSpace) -> tuple[Configuration, ...]:
    queue: list[Configuration] = []
    if spec.baseline is not None:
        budget = spec.baseline.budget
        other = {} if budget is None else {"budget": budget.model_dump(exclude_unset=True)}
        trial = space.configure(spec.baseline.set, "baseline.set", **other)
        queue.append(Configuration("baseline", space.params_of(trial), trial))
    for index, values in enumerate(spec.enqueue):
        params = space.enqueued(values, f"enqueue.{index}")
        if any(params == earlier.params for earlier in queue if earlier.origin == "enqueued"):
            raise invalid(f"enqueue.{index}", "repeats an earlier one")
        queue.append(Configuration("enqueued", params, space.resolve(params)))
    return tuple(queue)


def _located(document: Document, error: PydanticCustomError) -> SpecError:
    context = error.context or {}
    return document.error(str(context["path"]), str(context["message"]))
