"""A study as CSV, JSON or Parquet; a trial as a file that `sweeper run` takes and reproduces."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from sweeper.core.errors import InputError
from sweeper.report.metrics import METRICS, format_metric, value_of
from sweeper.store.rows import SlotRow, StudyRow, TrialRow


def trial_yaml(study: StudyRow, trial: TrialRow) -> str:
    """YAML 1.2 with the one key `trial`, under comments that say where it comes from.

    Keys stand in the order of `TrialSpec`, in which the store wrote them.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None  # one line for a mapping or list that nests nothing
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 100
    yaml.representer.add_representer(float, _represent_float)
    text = io.StringIO()
    yaml.dump({"trial": json.loads(trial.config_json)}, text)
    return _header(study, trial) + text.getvalue()


def study_json(study: StudyRow, trials: Sequence[TrialRow], runs: Sequence[SlotRow]) -> str:
    """One JSON document: the study, its trials with parsed configurations, its runs."""
    document = {
        "study": asdict(study),
        "trials": [
            asdict(trial) | {"config_json": json.loads(trial.config_json)} for trial in trials
        ],
        "runs": [asdict(run) for run in runs],
    }
    return json.dumps(document, default=datetime.isoformat)


def study_table(trials: Sequence[TrialRow]) -> dict[str, list[Any]]:
    """Column -> values, one a trial: every column of `TrialRow`, and each searched parameter
    under its dotted path in place of `params`."""
    names = [field.name for field in fields(TrialRow) if field.name != "params"]
    paths = dict.fromkeys(path for trial in trials for path in trial.params)
    return {name: [getattr(trial, name) for trial in trials] for name in names} | {
        path: [trial.params.get(path) for trial in trials] for path in paths
    }


def write_csv(file: IO[str], table: Mapping[str, Sequence[Any]]) -> None:
    """Unrounded; timestamps as ISO 8601; an empty field is NULL."""
    writer = csv.writer(file)
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow([v.isoformat() if isinstance(v, datetime) else v for v in row])


def write_parquet(path: Path, table: Mapping[str, Sequence[Any]]) -> None:
    """Typed columns; a parameter of mixed types becomes text. Raises InputError without pyarrow."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InputError("Parquet needs pyarrow; type `pip install 'sweeper[parquet]'`") from None
    columns = {}
    for name, values in table.items():
        try:
            columns[name] = pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            columns[name] = pyarrow.array([None if v is None else str(v) for v in values])
    try:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _represent_float(representer: SafeRepresenter, value: float) -> ScalarNode:
    # `1e-05` is a float in YAML 1.2 and a string in 1.1; `1.0e-05` is a float in both.
    text = repr(value)
    text = text.replace("e", ".0e") if "." not in text else text
    return representer.represent_scalar("tag:yaml.org,2002:float", text)


def _header(study: StudyRow, trial: TrialRow) -> str:
    lines = [
        # A name may hold any printable text; a comment must stay one line.
        f"study: {' '.join(study.name.split())}",
        f"trial: {trial.number} ({trial.origin}, {trial.status}, runs: {trial.n_runs})",
    ]
    lines += [
        f"{metric}: {format_metric(metric, value)}"
        + (f" {METRICS[metric].unit}" if METRICS[metric].unit else "")
        for metric in dict.fromkeys((*study.objectives, "final_return", "steps_per_second"))
        if (value := value_of(trial, metric)) is not None
    ]
    return "".join(f"# {line}\n" for line in lines)
