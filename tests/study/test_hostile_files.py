"""Study files that nobody would write: valid ones, mutated. Each loads or gets one line."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweeper.core.errors import SpecError
from sweeper.study.document import document_of, dump, read_document
from sweeper.study.parse import parse
from sweeper.study.schema import dotted_paths
from sweeper.study.spec import StudySpec, load_study, study_of

FOLDER = Path(__file__).parents[2] / "studies"
EXAMPLES = settings(
    max_examples=500,
    deadline=timedelta(seconds=60),  # far beyond any file that is no hang
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
CANARY = "hostile_canary"
"""A module that could be imported, and must not be: loading a file runs nothing of it."""
SCHEDULES = ("constant", "linear", "cosine", "warmup_cosine", "middle_drop", "double_linear")
OPTIMIZERS = ("adam", "adamw", "rmsprop", "sgd", "muon", "kfac")


def every_key() -> Iterator[dict[str, Any]]:
    """Studies that between them give every key there is, with its default where it has one."""
    mlp, cnn, impala = {"kind": "mlp"}, {"kind": "cnn"}, {"kind": "impala"}
    for kind, shape in zip(OPTIMIZERS, SCHEDULES, strict=True):
        schedule = {"kind": shape}
        optimizer = {"kind": kind, "schedule": schedule}
        ppo = {"kind": "ppo", "optimizer": optimizer, "clip_range_schedule": schedule}
        yield complete({**ppo, "network": mlp})
        yield complete({"kind": "a2c", "optimizer": optimizer, "network": cnn})
        yield complete({"kind": "sb3", "learning_rate_schedule": schedule})
        yield complete({"kind": "sb3_a2c", "learning_rate_schedule": schedule})
    yield complete({"kind": "acktr", "network": impala})
    yield complete({"kind": f"{CANARY}:Learner", "depth": [1, {"a": 2}]})


def complete(algorithm: dict[str, Any]) -> dict[str, Any]:
    given = {
        "study": "complete",
        "stop": {"trials": 9, "hours": 1.5},
        "constraints": {"final_return": {"min": 1.0}, "peak_rss_bytes": {"max": 1e9}},
        "confirm": {},
        "trial": {
            "env": {
                "make": f"{CANARY}:make",
                "kwargs": {"size": 3},
                "wrappers": [{"wrapper": f"{CANARY}:Wrapper", "kwargs": {"k": None}}],
                "vector": {"make": f"{CANARY}:make_vector", "kwargs": {}},
            },
            "algorithm": algorithm,
            "budget": {"seconds": 5.0},
        },
        "search": {
            "parallelism.n_envs": {"kind": "pow2", "low": 8, "high": 64},
            "parallelism.torch_threads": {"kind": "int", "low": 1, "high": 3},
            "parallelism.overlap": {"kind": "bool"},
            "parallelism.vec_env": {"kind": "choice", "choices": ["serial", "subproc"]},
            "env.step_timeout": {"kind": "float", "low": 1.0, "high": 9.0, "step": 0.5},
            "parallelism.start_method": {
                "kind": "constant",
                "value": "spawn",
                "when": {"parallelism.vec_env": ["subproc"]},
            },
        },
        "baseline": {"set": {"parallelism.n_envs": 8}, "budget": {"env_steps": 1000}},
        "enqueue": [{"parallelism.n_envs": 16}, {"parallelism.overlap": True}],
        "warm_start": {"study": "another"},
        "ray": {"address": "10.0.0.1:6379", "pip": ["numpy"]},
    }
    data = StudySpec.model_validate(given).model_dump(mode="json")
    return study_of(document_of(dump(data), "complete")).spec.model_dump(mode="json")


VALID = [parse(path.read_text())[0] for path in sorted(FOLDER.glob("*.yaml"))] + list(every_key())
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3, 7, 64, 2**31, 2**63 - 1, -(2**62)),
    *(0.0, -0.0, 0.5, 5e-324, 1e-300, 1e308, -1e308, 1.0000000001),
    *(
        "",
        " ",
        "auto",
        "none",
        "null",
        "1",
        "1e999",
        ".",
        "a.b",
        ":",
        "a:b",
        "é\u200b\u2028",
        "a" * 5000,
    ),
    *("\x1b[31m\x07", "line\nbreak", "%s{0}${HOME}", "../../etc/passwd", "CartPole-v1"),
    *(f"{CANARY}:Learner", f"{CANARY}:make", CANARY, "os:system", "__import__('os').abort()"),
    *([], {}, [[]], [None], [1, 1], {"": 1}, {"kind": "ppo"}, {"a.b": {"c": []}}, list(range(300))),
]
KEYS = ["", "kind", "low", "when", "trial", "search", "a.b", ".", "algorithm.n_steps", "env", "0"]


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid study after one to four changes of structure or value."""
    data = copy.deepcopy(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 4))):
        parent, key = draw(st.sampled_from(list(places(data)) or [(data, None)]))
        if key is None:
            break
        match draw(st.sampled_from(("set", "drop", "move", "wrap", "rename", "repeat"))):
            case "set":
                parent[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
            case "drop":
                del parent[key]
            case "move":
                other, there = draw(st.sampled_from(list(places(data))))
                parent[key] = copy.deepcopy(other[there])
            case "wrap":
                value = copy.deepcopy(parent[key])
                parent[key] = draw(st.sampled_from(([value], {"kind": value}, {str(key): value})))
            case "rename" if isinstance(parent, dict):
                names = [*KEYS, *parent]
                parent[draw(st.sampled_from(names))] = parent.pop(key)
            case "repeat" if isinstance(parent, list):
                parent *= draw(st.integers(0, 40))
            case _:
                parent[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return data


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything in it."""
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], dict | list):
            yield from places(data[key])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / f"{CANARY}.py").write_text("raise SystemExit('the file was run')\n")
    sys.path.insert(0, str(folder))
    yield folder / "study.yaml"
    sys.path.remove(str(folder))
    assert CANARY not in sys.modules


def assert_loads_or_says_why(path: Path) -> None:
    try:
        load_study(path)
    except SpecError as error:
        said = str(error).removeprefix(f"{path.parent}/")
        assert said.isprintable(), said
        assert len(said) < 1000, said
        assert re.match(r"study\.yaml(:\d+)?: \S", said), said
        whole_file = r"study\.yaml: (is |(study|stop|trial|search)(\.\w+)* is missing)"
        assert re.match(r"study\.yaml:\d+: ", said) or re.match(whole_file, said), said


def test_every_key_is_in_a_file_that_is_mutated() -> None:
    given = {path for data in VALID for path in written(data)}
    assert {path for path in dotted_paths(StudySpec) if path not in given} == set()


def written(data: Any, path: str = "") -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield f"{path}{key}"
            yield from written(value, f"{path}{key}.")


@pytest.mark.slow
@EXAMPLES
@given(data=mutated())
def test_a_mutated_study_loads_or_gets_one_line_with_a_position(path: Path, data: Any) -> None:
    path.write_text(dump(data), encoding="utf-8")
    assert_loads_or_says_why(path)


@pytest.mark.slow
@EXAMPLES
@given(changes=st.data())
def test_a_study_file_with_mutated_text_loads_or_gets_one_line(
    path: Path, changes: st.DataObject
) -> None:
    text = changes.draw(st.sampled_from(sorted(FOLDER.glob("*.yaml")))).read_text()
    pieces = ["!!python/object/apply:os.abort []", "!!python/name:os.abort", "&a ", "*a", "<<: "]
    pieces += [
        "- ",
        "? ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "\n",
        "\t",
        "'",
        '"',
        "|",
        ">",
        "%YAML 9",
        "---",
    ]
    pieces += ["\x00", "\ud7ff", "\u2028", "0x", "1e999", ".inf", "null", "@", "`", "\r", "#", ","]
    for _ in range(changes.draw(st.integers(1, 4))):
        at, to = sorted(changes.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        match changes.draw(st.sampled_from(("insert", "cut", "copy"))):
            case "insert":
                text = text[:at] + changes.draw(st.sampled_from(pieces)) + text[at:]
            case "cut":
                text = text[:at] + text[min(to, at + 60) :]
            case "copy":
                text = text[:at] + text[at:to] + text[at:]
    path.write_text(text, encoding="utf-8")
    assert_loads_or_says_why(path)


@pytest.mark.slow
@EXAMPLES
@given(
    key=st.sampled_from(sorted(set(dotted_paths(StudySpec))) + KEYS),
    value=st.sampled_from(VALUES),
    base=st.sampled_from(VALID),
)
def test_an_override_of_any_key_loads_or_gets_one_line(
    path: Path, key: str, value: Any, base: Any
) -> None:
    path.write_text(dump(base), encoding="utf-8")
    text = dump({"value": value}).removeprefix("value:").strip()
    try:
        study_of(read_document(path), overrides=[f"{key}={text}"])
    except SpecError as error:
        said = str(error).removeprefix(f"{path.parent}/")
        assert said.isprintable(), said
        assert re.match(r"--set |study\.yaml(:\d+)?: \S", said), said
