"""A trial's resolved configuration as a file that `sweeper run` accepts and reproduces."""

from __future__ import annotations

import io
import json

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from sweeper.report.metrics import METRICS, format_metric, value_of
from sweeper.store.queries import StudyRow, TrialRow


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
