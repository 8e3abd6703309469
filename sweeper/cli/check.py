"""`sweeper check`: what a study file means, before it costs anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweeper.cli.learners import check_learners, make_importable
from sweeper.cli.preflight import check_environments
from sweeper.cli.printing import print_json
from sweeper.cli.table import print_table
from sweeper.report.metrics import format_seconds
from sweeper.study.parameters import (
    FloatParameter,
    IntParameter,
    Parameter,
    Pow2Parameter,
)
from sweeper.study.spec import LoadedStudy, StudySpec, concurrency_on, expected_seconds, load_study
from sweeper.trial.cores import usable_cores


def check_study(file: Path, *, overrides: list[str], as_json: bool) -> None:
    """Print the resolved space, how many configurations it holds, and the expected duration."""
    cores = len(usable_cores())
    make_importable(file.parent)
    loaded = load_study(file, overrides=overrides, usable_cores=cores)
    check_environments(loaded)
    check_learners(loaded)
    concurrency = concurrency_on(loaded.spec, cores)
    if as_json:
        print_json(_record(loaded, concurrency))
        return
    spec, report = loaded.spec, loaded.space.report()
    print(f"{file}: study {spec.study!r} on {spec.trial.env.name} is valid")
    print_table(
        ("parameter", "searched"),
        [(p, describe_parameter(v)) for p, v in report.parameters.items()],
    )
    for narrowed in report.narrowed:
        values = ", ".join(map(str, narrowed.values))
        print(f"left out of {narrowed.path}: {values} ({narrowed.reason})")
    if report.valid is not None:
        print(
            f"{report.valid:,} of {report.combinations:,} discrete combinations can run"
            + (f", times {' x '.join(report.continuous)}" if report.continuous else "")
        )
    print(_duration(spec, concurrency))


def describe_parameter(parameter: Parameter) -> str:
    """Its range in words."""
    match parameter:
        case FloatParameter() | IntParameter():
            scale = ", log scale" if parameter.log else ""
            step = "" if parameter.step in (None, 1) else f", step {parameter.step:g}"
            return f"{parameter.low:g} to {parameter.high:g}{scale}{step}"
        case Pow2Parameter():
            return f"{parameter.low} to {parameter.high}, powers of 2"
        case _:
            return ", ".join(map(str, parameter.values or ()))


def _duration(spec: StudySpec, concurrency: int) -> str:
    seconds = expected_seconds(spec, concurrency)
    budget, trials = spec.trial.budget, spec.stop.trials
    at_once = f"{concurrency} at once"
    if seconds is None:
        return f"{trials} trials x {budget}, {at_once}; how long env steps take is not known"
    words = f"{trials} trials x {budget}, {at_once}" if trials else f"trials of {budget}, {at_once}"
    return f"{words}: about {format_seconds(seconds)} of training, and starting up and evaluating"


def _record(loaded: LoadedStudy, concurrency: int) -> dict[str, Any]:
    report = loaded.space.report()
    return {
        "study": loaded.spec.study,
        "environment": loaded.spec.trial.env.name,
        "parameters": {
            path: parameter.model_dump(mode="json") for path, parameter in report.parameters.items()
        },
        "continuous": list(report.continuous),
        "discrete_combinations": report.combinations,
        "valid_combinations": report.valid,
        "left_out": [
            {"path": n.path, "values": list(n.values), "reason": n.reason} for n in report.narrowed
        ],
        "trials": loaded.spec.stop.trials,
        "concurrency": concurrency,
        "expected_seconds": expected_seconds(loaded.spec, concurrency),
    }
