"""Study files as wholes: the quickstart, its mutations, and what a study may say."""

from __future__ import annotations

import copy
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sweeper.core.errors import SpecError
from sweeper.study.combinations import INTERACTING
from sweeper.study.document import document_of
from sweeper.study.parse import parse
from sweeper.study.spec import expected_seconds, load_study, load_trial, study_of, study_schema

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "studies" / "quickstart.yaml"
DATA: dict[str, Any] = parse(QUICKSTART.read_text())[0]

STUDY = """\
study: s
stop: {trials: 4}
trial:
  env: {id: CartPole-v1}
  algorithm: {kind: ppo, n_steps: 32, n_minibatches: 1}
  budget: {seconds: 10}
search:
  parallelism.n_envs: {kind: pow2, low: 1, high: 8}
"""


def error(tmp_path: Path, text: str, **options: Any) -> str:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_study(path, **options)
    return str(caught.value).removeprefix(f"{tmp_path}/")


def test_the_quickstart_loads_with_its_baseline_and_enqueued_trials() -> None:
    study = load_study(QUICKSTART, usable_cores=1)
    assert study.spec.stop.trials == 16
    assert study.space.report().narrowed == ()
    baseline, *enqueued = study.queue
    assert baseline.origin == "baseline"
    assert baseline.trial.minibatch_size == 256
    assert [c.origin for c in enqueued] == ["enqueued", "enqueued"]
    assert all(study.space.resolve(c.params) == c.trial for c in enqueued)


def test_a_trial_is_read_without_the_rest_of_the_study(tmp_path: Path) -> None:
    assert load_trial(QUICKSTART) == load_study(QUICKSTART).spec.trial
    path = tmp_path / "trial.yaml"
    path.write_text(json.dumps({"trial": DATA["trial"]}))
    assert load_trial(path) == load_trial(QUICKSTART)


@pytest.mark.parametrize("prefix", ["", "trial."])
def test_overrides_of_a_trial_are_paths_into_it(prefix: str) -> None:
    trial = load_trial(QUICKSTART, overrides=[f"{prefix}parallelism.n_envs=4", "seed=3"])
    assert (trial.parallelism.n_envs, trial.seed) == (4, 3)


def test_the_digest_follows_the_meaning_and_not_the_layout(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(STUDY)
    before = load_study(path).sha256
    path.write_text("# a comment\n" + STUDY.replace("{trials: 4}", "{trials: 8}"))
    assert load_study(path).sha256 == before
    assert load_study(path, overrides=["trial.budget.seconds=11"]).sha256 != before
    more = ["replicate.share=0.5", "confirm.top=2", "stop.hours=3", "concurrency=1"]
    more += ["ray.labels={pool: lab}", "ray.memory_bytes=4.0e9"]
    assert load_study(path, overrides=more).sha256 == before
    assert load_study(path, overrides=["trial.parallelism.gpus=0.5"]).sha256 != before


def test_the_text_of_a_study_with_overrides_holds_them(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("# a comment\n" + STUDY)
    assert load_study(path).text.startswith("# a comment")
    text = load_study(path, overrides=["trial.budget.seconds=11"]).text
    again = study_of(document_of(text, "the database"))
    assert again.sha256 == load_study(path, overrides=["trial.budget.seconds=11"]).sha256
    assert again.spec.trial.budget.seconds == 11


@pytest.mark.parametrize(
    ("stop", "concurrency", "seconds"),
    [
        ("{trials: 4}", 2, 25.0),  # five runs: a re-run on top of four trials
        ("{hours: 0.001}", 2, 3.6),
        ("{trials: 4, hours: 0.001}", 2, 3.6),
        ("{trials: 4, hours: 9}", 1, 50.0),
    ],
)
def test_the_expected_duration(tmp_path: Path, stop: str, concurrency: int, seconds: float) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(STUDY.replace("{trials: 4}", stop))
    assert expected_seconds(load_study(path).spec, concurrency) == pytest.approx(seconds)


def test_a_budget_of_env_steps_has_no_expected_duration(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(STUDY.replace("{seconds: 10}", "{env_steps: 1000}"))
    assert expected_seconds(load_study(path).spec, 1) is None


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (
            "pruner: {kind: pareto_rungs, rungs: [0.5, 0.2]}",
            "x.yaml:9: pruner.rungs.1 must be more than 0.5, got 0.2",
        ),
        ("pruner: {rungs: []}", "x.yaml:9: pruner.rungs must hold at least 1, got 0"),
        ("replicate: {share: 1}", "x.yaml:9: replicate.share must be at most 0.9, got 1"),
        ("confirm: {top: 0}", "x.yaml:9: confirm.top must be at least 1, got 0"),
        ("warm_start: {}", "x.yaml:9: warm_start.study is missing"),
        ("stop_: 1", "x.yaml:9: stop_ is not a known key; did you mean `stop`?"),
        (
            "objectives: {final_return: maximize}",
            "x.yaml:9: objectives must hold at least 2, got 1",
        ),
        (
            "objectives: {final_return: up, steps_per_second: maximize}",
            "x.yaml:9: objectives.final_return must be one of maximize, minimize, got 'up'",
        ),
        (
            "objectives: {final_retrun: maximize, steps_per_second: maximize}",
            "x.yaml:9: objectives.final_retrun must be one of final_return, training_return, "
            "steps_per_second, seconds_to_threshold, core_seconds, return_area, "
            "got 'final_retrun'; did you mean final_return?",
        ),
        (
            "constraints: {memory: {max: 1}}",
            "x.yaml:9: constraints.memory must be one of final_return, ",
        ),
        ("constraints: {final_return: {}}", "x.yaml:9: constraints.final_return: give `min`"),
        (
            "constraints: {final_return: {min: 2, max: 1}}",
            "x.yaml:9: constraints.final_return.min must be at most max = 1, got 2",
        ),
        ("concurrency: 0", "x.yaml:9: concurrency must be at least 1 or auto, got 0"),
        (
            "sampler: {kind: tpee}",
            "x.yaml:9: sampler.kind must be one of auto, tpe, gp, nsga2, qmc, random, grid, "
            "got 'tpee'; did you mean tpe?",
        ),
        ("ray: {address: nowhere}", "x.yaml:9: ray.address must be text of the form"),
        ("ray: {labels: {pool: 1}}", "x.yaml:9: ray.labels.pool must be text, got 1"),
        ("ray: {labels: [lab]}", "x.yaml:9: ray.labels must be a mapping of keys, got ['lab']"),
        ("ray: {memory_bytes: 0}", "x.yaml:9: ray.memory_bytes must be more than 0, got 0"),
        (
            "baseline: {set: {parallelism.gpus: 1.5}}",
            "x.yaml:9: baseline.set.parallelism.gpus must be at most 1 or a whole number, got 1.5",
        ),
        (
            "baseline: {set: {parallelism.gpus: 0}}",
            "x.yaml:9: baseline.set.parallelism.gpus must be more than 0 or at least 1, got 0",
        ),
        (
            "  parallelism.gpus: {kind: float, low: 0.5, high: 2.0}",
            "x.yaml:9: search.parallelism.gpus.high must be at most 1 or a whole number, got 2",
        ),
        ("enqueue: [{n_envs: 4}]", "x.yaml:9: enqueue.0.n_envs is not searched; did you mean par"),
        (
            "enqueue:\n  - {parallelism.n_envs: 4}\n  - {parallelism.n_envs: 16}",
            "x.yaml:11: enqueue.1.parallelism.n_envs must be one of 1, 2, 4, 8, got 16",
        ),
        (
            "enqueue:\n  - {parallelism.n_envs: 4}\n  - {parallelism.n_envs: 4}",
            "x.yaml:11: enqueue.1 repeats an earlier one",
        ),
        (
            "baseline: {set: {paralelism.n_envs: 4}}",
            "x.yaml:9: baseline.set.paralelism.n_envs is not a key of the trial; "
            "did you mean parallelism.n_envs?",
        ),
        (
            "baseline: {set: {parallelism.n_envs: 0}}",
            "x.yaml:9: baseline.set.parallelism.n_envs must be at least 1, got 0",
        ),
        (
            "baseline: {set: {algorithm.n_minibatches: 3}}",
            "x.yaml:9: baseline.set.algorithm.n_minibatches must divide the batch",
        ),
        ("baseline: {budget: {}}", "x.yaml:9: baseline.budget: give exactly one of"),
    ],
)
def test_what_a_study_may_not_say(tmp_path: Path, added: str, expected: str) -> None:
    said = error(tmp_path, f"{STUDY}{added}\n")
    assert said.startswith(expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("study: s", "study: ''", "x.yaml:1: study must be text that is not empty, got ''"),
        ("study: s", 'study: "a\\nb"', "x.yaml:1: study must be printable text"),
        ("{trials: 4}", "{}", "x.yaml:2: stop: give `trials`, `hours`, or both"),
        ("{trials: 4}", "{trials: 0}", "x.yaml:2: stop.trials must be at least 1, got 0"),
        ("stop: {trials: 4}\n", "", "x.yaml: stop is missing"),
        ("kind: pow2", "kind: pow3", "x.yaml:8: search.parallelism.n_envs.kind must be one of"),
    ],
)
def test_what_a_study_must_say(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert error(tmp_path, STUDY.replace(old, new)).startswith(expected)


def test_more_cores_than_there_are(tmp_path: Path) -> None:
    text = STUDY.replace("  budget:", "  parallelism: {cores: 3}\n  budget:")
    assert error(tmp_path, text, usable_cores=2) == (
        "x.yaml:6: parallelism.cores cannot be had: no node has more than 2 usable cores, got 3"
    )


def test_a_baseline_with_more_cores_than_there_are(tmp_path: Path) -> None:
    text = f"{STUDY}baseline: {{set: {{parallelism.cores: 3}}}}\n"
    assert error(tmp_path, text, usable_cores=2) == (
        "x.yaml:9: baseline.set.parallelism.cores cannot be had: "
        "no node has more than 2 usable cores, got 3"
    )


def test_an_enqueued_trial_with_more_cores_than_there_are(tmp_path: Path) -> None:
    """It has those of the trial where they are not in the searched range."""
    text = STUDY.replace("  budget:", "  parallelism: {cores: 3}\n  budget:")
    text += (
        "  parallelism.cores: {kind: int, low: 1, high: 2}\nenqueue: [{parallelism.n_envs: 4}]\n"
    )
    assert error(tmp_path, text, usable_cores=2) == (
        "x.yaml:11: enqueue.0.parallelism.cores cannot be had: "
        "no node has more than 2 usable cores, got 3"
    )


def test_a_grid_needs_every_parameter_to_be_discrete(tmp_path: Path) -> None:
    text = f"{STUDY}  algorithm.gamma: {{kind: float, low: 0.9, high: 0.99}}\n"
    said = error(tmp_path, f"{text}sampler: {{kind: grid}}\n")
    assert said.startswith("x.yaml:9: search.algorithm.gamma needs a `step`")


# -- Anything at all -----------------------------------------------------------------------------

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-2, 300)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["auto", "adam", "sgd", "a2c", "ppo", "algorithm.kind", "linear", "pow2"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "low", "high", "choices", "when", "x"]), inner)
    ),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """The quickstart with a few keys dropped, renamed, moved, or set to something else."""
    data = copy.deepcopy(DATA)
    for _ in range(draw(st.integers(1, 3))):
        containers = [c for c in _containers(data) if c]
        container = draw(st.sampled_from(containers))
        keys = list(container) if isinstance(container, dict) else list(range(len(container)))
        key = draw(st.sampled_from(keys))
        match draw(st.sampled_from(["drop", "rename", "set", "swap"])):
            case "drop":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[draw(st.text(min_size=1, max_size=8))] = container.pop(key)
            case "swap":
                other = draw(st.sampled_from(containers))
                container[key] = copy.deepcopy(other)
            case _:
                container[key] = draw(values)
    return data


def _containers(data: Any) -> list[Any]:
    if isinstance(data, dict):
        return [data, *(c for value in data.values() for c in _containers(value))]
    if isinstance(data, list):
        return [data, *(c for value in data for c in _containers(value))]
    return []


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=mutated())
def test_a_mutated_quickstart_loads_or_gets_one_line(tmp_path: Path, data: dict[str, Any]) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(json.dumps(data, indent=1))
    try:
        study = load_study(path, usable_cores=4)
    except SpecError as caught:
        said = str(caught)
    else:
        study.space.resolve(study.space.repair({}))
        return
    assert re.match(rf"{re.escape(str(path))}(:\d+)?: \S", said)
    assert "\n" not in said


# -- Documentation -------------------------------------------------------------------------------


def test_the_documented_keys_are_those_of_the_specs() -> None:
    """After a change of a spec: python docs/study_keys.py"""
    generator = runpy.run_path(str(ROOT / "docs" / "study_keys.py"))
    assert (ROOT / "docs" / "study-file.md").read_text(encoding="utf-8") == generator["page"]()


def test_the_documented_order_of_repair_is_the_real_one() -> None:
    text = (ROOT / "docs" / "study-file.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\d\. `([\w.]+)`", text, flags=re.MULTILINE)) == INTERACTING


def test_the_shipped_studies_load() -> None:
    for path in sorted((ROOT / "studies").glob("*.yaml")):
        load_study(path)


def test_the_json_schema_accepts_the_studies_and_names_what_it_refuses() -> None:
    schema = study_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for path in (ROOT / "studies").glob("*.yaml"):
        assert list(validator.iter_errors(parse(path.read_text())[0])) == [], path
    for change in ({"stopp": 1}, {"concurrency": 0}, {"sampler": {"kind": "tpee"}}):
        assert list(validator.iter_errors({**DATA, **change})), change


def test_the_json_schema_explains_every_key() -> None:
    schema = study_schema()
    for name, key in schema["properties"].items():
        section = schema["$defs"].get(key.get("$ref", "").rpartition("/")[2], {})
        assert key.get("description") or section.get("description"), name
