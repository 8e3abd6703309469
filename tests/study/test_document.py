"""What a study file can be, and the one line that says what is wrong with it and where."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.core.errors import SpecError
from sweeper.study.document import Document, read_document, validate
from sweeper.study.parse import MAX_CHARACTERS, ParseError, parse
from sweeper.trial.spec import TrialSpec

TRIAL = """\
trial:
  env: {id: CartPole-v1}
  algorithm:
    kind: ppo
    n_steps: 32
    n_minibatches: 4
  parallelism:
    n_envs: 8
  budget: {seconds: 10}
"""


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def message(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(SpecError) as caught:
        read_document(written(tmp_path, text))
    return str(caught.value).removeprefix(f"{tmp_path}/")


def complaint(tmp_path: Path, text: str, *overrides: str) -> str:
    document = read_document(written(tmp_path, text))
    for assignment in overrides:
        document = document.override(assignment)
    with pytest.raises(SpecError) as caught:
        validate(document, TrialSpec, section="trial")
    return str(caught.value).removeprefix(f"{tmp_path}/")


# -- Files -------------------------------------------------------------------------------------


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml: there is no such file$"):
        read_document(tmp_path / "none.yaml")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"is a directory; name a study file in it$"):
        read_document(tmp_path)


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        read_document("a\0b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"\xff\xfe", "x.yaml: is not UTF-8 text"),
        ("", "x.yaml: is empty; a study has at least `study`, `stop` and `trial`"),
        (
            "# only a comment\n",
            "x.yaml: is empty; a study has at least `study`, `stop` and `trial`",
        ),
        ("- a\n- b\n", "x.yaml:1: must be a mapping of keys, not a list or a single value"),
        ("just words", "x.yaml:1: must be a mapping of keys, not a list or a single value"),
        ("a: [1\n", "x.yaml:2: is not YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\nb:\n\t- 2\n", "x.yaml:3: is not YAML: found character '\\t' that cannot start"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: holds a second document; give one a file"),
        ("a: 1\nb: 2\na: 3\n", "x.yaml:3: gives `a` twice, first on line 1"),
        ("a:\n  b: 1\n  b: 2\n", "x.yaml:3: gives `b` twice, first on line 2"),
        ("a: !!python/name:os.system x\n", "x.yaml:1: has a tag, "),
        ("a: !mine 1\n", "x.yaml:1: has a tag, !mine; only plain data is read"),
        ("a: *b\n", "x.yaml:1: refers to *b, which is not defined yet"),
        ("a: &b [*b]\n", "x.yaml:1: refers to *b, which is not defined yet"),
        ("a: 1\n2: b\n", "x.yaml:2: has a key that is not text; put it in quotes"),
        ("a: 1\n'': b\n", "x.yaml:2: has a key without text"),
        ("a: .nan\n", "x.yaml:1: holds .nan, which is not a finite number"),
        ("a: 1e999\n", "x.yaml:1: holds 1e999, which is not a finite number"),
        ("a: 99999999999999999999\n", "x.yaml:1: holds a whole number beyond 64 bits"),
        ("a: " + "[" * 60 + "]" * 60, "x.yaml:1: is nested deeper than 24 levels"),
        ('a: "\\ud800"\n', "x.yaml:1: holds half a character, a lone surrogate"),
        ("a: \x00\n", "x.yaml: is not YAML: "),
    ],
)
def test_what_is_no_study_file_gets_one_line(
    tmp_path: Path, text: str | bytes, expected: str
) -> None:
    said = message(tmp_path, text)
    assert said.startswith(expected)
    assert "\n" not in said


def test_aliases_may_repeat_a_value_but_not_explode(tmp_path: Path) -> None:
    assert parse("a: &x [1, 2]\nb: *x\n")[0] == {"a": [1, 2], "b": [1, 2]}
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
    )
    assert "holds more than 20000 values" in message(tmp_path, bomb)


def test_a_file_too_large_is_refused_unread(tmp_path: Path) -> None:
    assert "is too large" in message(tmp_path, "#" * (MAX_CHARACTERS + 1))


def test_scalars_are_those_of_yaml_1_2() -> None:
    numbers = "1, -2, 0x10, 0o17, 010, 3e-4, 1.5, .5"
    text = f"[{numbers}, true, null, ~, 'true', on, yes, 1_000, 12:30, 2026-01-01]"
    assert parse(text)[0] == [
        *[1, -2, 16, 15, 10, 3e-4, 1.5, 0.5, True, None, None],
        *["true", "on", "yes", "1_000", "12:30", "2026-01-01"],
    ]


def test_escaped_surrogate_pairs_are_one_character() -> None:
    assert parse(r'"\ud83d\ude00"')[0] == "\N{GRINNING FACE}"


def test_lines_are_those_of_the_keys() -> None:
    assert parse("a: 1\nb:\n  c: [x,\n      y]\n")[1] == {
        "a": 1,
        "b": 2,
        "b.c": 3,
        "b.c.0": 3,
        "b.c.1": 4,
    }


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@,? \n\t0.~"), max_size=40))
def test_any_text_is_data_or_a_parse_error(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse(text)


# -- Complaints about values -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("n_envs: 8", "n_envs: 0", "x.yaml:8: parallelism.n_envs must be at least 1, got 0"),
        (
            "n_envs: 8",
            "n_env: 8",
            "x.yaml:8: parallelism.n_env is not a known key; did you mean `n_envs`?",
        ),
        (
            "n_envs: 8",
            "zzz: 8",
            "x.yaml:8: parallelism.zzz is not a known key; known here: vec_env, n_envs, ",
        ),
        (
            "n_envs: 8",
            "n_envs: 8.5",
            "x.yaml:8: parallelism.n_envs must be a whole number, got 8.5",
        ),
        (
            "n_envs: 8",
            "n_envs: true",
            "x.yaml:8: parallelism.n_envs must be a whole number, got true",
        ),
        (
            "n_envs: 8",
            "n_envs: [8]",
            "x.yaml:8: parallelism.n_envs must be a whole number, got [8]",
        ),
        ("n_envs: 8", "n_envs:", "x.yaml:8: parallelism.n_envs must be a whole number, got null"),
        (
            "n_envs: 8",
            "vec_env: gym",
            "x.yaml:8: parallelism.vec_env must be one of serial, subproc, gymnasium, got 'gym'",
        ),
        (
            "n_envs: 8",
            "envs_per_worker: many",
            "x.yaml:8: parallelism.envs_per_worker must be a whole number or auto, got 'many'",
        ),
        (
            "n_envs: 8",
            "envs_per_worker: 9",
            "x.yaml:8: parallelism.envs_per_worker must be `auto` or 1 to n_envs = 8, got 9",
        ),
        (
            "kind: ppo",
            "kind: pqo",
            "x.yaml:4: algorithm.kind must be one of ppo, a2c, acktr, sb3, sb3_a2c, "
            "my_module:MyLearner, got 'pqo'; did you mean ppo?",
        ),
        ("kind: ppo", "gamma: 1", "x.yaml:3: algorithm.kind is missing; it is one of ppo, a2c"),
        (
            "n_minibatches: 4",
            "n_minibatches: 3",
            "x.yaml:6: algorithm.n_minibatches must divide the batch, "
            "n_envs x n_steps = 8 x 32 = 256, got 3",
        ),
        ("n_steps: 32", "gamma: 2", "x.yaml:5: algorithm.gamma must be at most 1, got 2"),
        (
            "n_steps: 32",
            "optimizer: {kind: adam, momentum: 0.9}",
            "x.yaml:5: algorithm.optimizer.momentum is not a known key; known here: learning_rate",
        ),
        (
            "n_steps: 32",
            "network: {hidden: []}",
            "x.yaml:5: algorithm.network.hidden must hold at least 1, got 0",
        ),
        ("{seconds: 10}", "{seconds: 0}", "x.yaml:9: budget.seconds must be more than 0, got 0"),
        (
            "{seconds: 10}",
            "{}",
            "x.yaml:9: budget: give exactly one of `seconds` and `env_steps`",
        ),
        ("  budget: {seconds: 10}", "", "x.yaml:1: budget is missing"),
        ("{id: CartPole-v1}", "CartPole-v1", "x.yaml:2: env must be a mapping of keys, got 'Cart"),
    ],
)
def test_a_wrong_value_is_named_with_its_line_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    said = complaint(tmp_path, TRIAL.replace(old, new))
    assert said.startswith(expected)
    assert "\n" not in said


def test_a_misspelt_key_is_told_before_what_it_makes_missing(tmp_path: Path) -> None:
    said = complaint(tmp_path, TRIAL.replace("  budget:", "  budjet:"))
    assert said == "x.yaml:9: budjet is not a known key; did you mean `budget`?"


def test_a_section_that_is_missing(tmp_path: Path) -> None:
    assert complaint(tmp_path, "study: s\n") == "x.yaml: trial is missing"


# -- Overrides ---------------------------------------------------------------------------------


def document(text: str = TRIAL) -> Document:
    data, lines = parse(text)
    return Document("x.yaml", text, data, {path: f"x.yaml:{n}" for path, n in lines.items()})


def test_an_override_replaces_one_value_and_leaves_the_document_alone() -> None:
    before = document()
    after = before.override("trial.parallelism.n_envs=4")
    assert after.data["trial"]["parallelism"] == {"n_envs": 4}
    assert before.data["trial"]["parallelism"] == {"n_envs": 8}


def test_an_override_reads_yaml_and_makes_the_mappings_on_the_way() -> None:
    after = document().override("trial.algorithm.optimizer.schedule={kind: linear}")
    assert after.data["trial"]["algorithm"]["optimizer"] == {"schedule": {"kind": "linear"}}


def test_an_override_finds_keys_with_dots() -> None:
    text = "search:\n  parallelism.n_envs: {kind: pow2, low: 1, high: 8}\n"
    search = document(text).override("search.parallelism.n_envs.high=4").data["search"]
    assert search == {"parallelism.n_envs": {"kind": "pow2", "low": 1, "high": 4}}
    search = document(text).override("search.algorithm.n_steps={kind: bool}").data["search"]
    assert search["algorithm.n_steps"] == {"kind": "bool"}


def test_an_override_reaches_into_lists() -> None:
    after = document("enqueue: [{a.b: 1}, {a.b: 2}]").override("enqueue.1.a.b=3")
    assert after.data["enqueue"] == [{"a.b": 1}, {"a.b": 3}]


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("n_envs", "--set n_envs: must be path=value, for example parallelism.n_envs=4"),
        ("=3", "--set =3: must be path=value, for example parallelism.n_envs=4"),
        ("a..b=3", "--set a..b=3: must be path=value, for example parallelism.n_envs=4"),
        ("a=[1", "--set a=[1: the value is not YAML: expected ',' or ']', but got '<stream end>'"),
        (
            "trial.env.id.x=3",
            "--set trial.env.id.x=3: trial.env.id is a single value and has no key x",
        ),
    ],
)
def test_an_override_that_cannot_be_made(assignment: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        document().override(assignment)
    assert str(caught.value) == expected


def test_an_error_about_an_overridden_key_names_the_override(tmp_path: Path) -> None:
    said = complaint(tmp_path, TRIAL, "trial.parallelism.n_envs=0")
    assert said == "--set trial.parallelism.n_envs=0: parallelism.n_envs must be at least 1, got 0"


def test_an_error_below_an_overridden_mapping_names_the_override(tmp_path: Path) -> None:
    said = complaint(tmp_path, TRIAL, "trial.parallelism={n_envs: 0}")
    assert said.startswith("--set trial.parallelism={n_envs: 0}: parallelism.n_envs must be")
