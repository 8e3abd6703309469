"""Bad input: one line that says what is wrong and where, exit code 2, nothing written."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli.conftest import Cli, write_study

from sweeper.trial.cores import usable_cores

MISSPELT = "study: x\nstop: {trials: 1}\ntrial:\n  env: {id: CartPole-v1}\n"


def refused(cli: Cli, *arguments: str) -> str:
    """The one line that the command is refused with."""
    before = contents()
    answer = cli(*arguments)
    assert answer.code == 2, answer
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith("sweeper: ")
    assert answer.out == ""
    assert contents() == before
    return answer.err.removeprefix("sweeper: ").strip()


def contents() -> dict[str, bytes]:
    """All files here; the memory that SQLite's readers share beside a database is no content."""
    return {
        str(path): path.read_bytes()
        for path in Path().rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


STUDY_COMMANDS = [("check",), ("run",), ("launch", "--db", "sqlite:///new.db")]


@pytest.fixture(params=STUDY_COMMANDS, ids=lambda command: command[0])
def reading_command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1, 2\nb: }", "bad.yaml:2: is not YAML: "),
        ("", "bad.yaml: is empty"),
        ("- 1\n", "bad.yaml:1: must be a mapping of keys"),
        (f"{MISSPELT}  algoritm: {{}}\n", "bad.yaml:5: algoritm is not a known key; did you mean"),
        (f"{MISSPELT}  seed: zero\n", "bad.yaml:5: seed must be a whole number, got 'zero'"),
        (f"{MISSPELT}  parallelism: {{n_envs: 0}}\n", "bad.yaml:5: parallelism.n_envs must be at"),
        (f"{MISSPELT}  budget: {{seconds: 0}}\n", "bad.yaml:5: budget.seconds must be more than 0"),
        (
            f"{MISSPELT}  budget: {{seconds: 1}}\n"
            "  algorithm: {kind: ppo, n_minibatches: 3}\nsearch: {seed: {kind: bool}}\n",
            "bad.yaml:6: algorithm.n_minibatches must divide the batch, n_envs x n_steps",
        ),
        (
            f"{MISSPELT}  budget: {{seconds: 1}}\n  algorithm: {{kind: sb3_a2c, n_epochs: 3}}\n",
            "bad.yaml:6: algorithm.n_epochs is not a known key",
        ),
        (
            f"{MISSPELT}  budget: {{seconds: 1}}\n  algorithm: {{kind: sb3, use_rms_prop: true}}\n",
            "bad.yaml:6: algorithm.use_rms_prop is not a known key",
        ),
    ],
)
def test_a_study_file(cli: Cli, reading_command: tuple[str, ...], text: str, said: str) -> None:
    Path("bad.yaml").write_text(text)
    assert refused(cli, *reading_command, "bad.yaml").startswith(said)


NETWORKS = """study: x
stop: {trials: 1}
trial:
  env: {make: "worlds:Pictured", kwargs: {shape: [3, 20, 20]}}
  budget: {env_steps: 100}
  algorithm:
    kind: ppo
    network: {kind: cnn}
"""
FLAT = NETWORKS.replace("Pictured", "Matching").replace(", kwargs: {shape: [3, 20, 20]}", "")
SMALL = NETWORKS.replace("kind: cnn", "kind: cnn, convolutions: [{filters: 4, kernel: 3}]")
SEARCH = "search: {algorithm.network.%s: {kind: choice, choices: [%s]}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            NETWORKS,
            "bad.yaml:8: algorithm.network.kind: cnn with these `convolutions` takes images",
        ),
        (FLAT, "bad.yaml:8: algorithm.network.kind: cnn takes images, a Box of [C, H, W]"),
        (
            NETWORKS.replace("kind: cnn", "hidden: [8]"),
            "bad.yaml:8: algorithm.network.kind: mlp takes flat observations; images, Box(0, 255, "
            "(3, 20, 20), uint8), need `kind: cnn`",
        ),
        (
            NETWORKS.replace("kind: cnn", "kind: lstm"),
            "bad.yaml:8: algorithm.network.kind must be one of mlp, cnn, impala, got 'lstm'",
        ),
        (
            NETWORKS.replace("kind: cnn", "kind: cnn, convolutions: [{filters: 4}]"),
            "bad.yaml:8: algorithm.network.convolutions.0.kernel is missing",
        ),
        (
            NETWORKS.replace("kind: cnn", "kind: impala, channels: [4, 0]"),
            "bad.yaml:8: algorithm.network.channels.1 must be at least 1, got 0",
        ),
        (
            NETWORKS.replace("kind: cnn", "kind: impala, channels: [1, 1, 1, 1, 1, 1]"),
            "bad.yaml:8: algorithm.network.kind: impala with these `channels` takes images of "
            "33 x 33 pixels or more; observations are 20 x 20",
        ),
        (
            NETWORKS.replace("Pictured", "Turned"),
            "bad.yaml:8: algorithm.network.kind: cnn with these `convolutions` takes images",
        ),
        (
            NETWORKS.replace("kind: cnn", "kind: mlp, hidden: [0]"),
            "bad.yaml:8: algorithm.network.hidden.0 must be at least 1, got 0",
        ),
    ],
)
def test_a_network_that_is_not_for_the_observations(
    cli: Cli, reading_command: tuple[str, ...], text: str, said: str
) -> None:
    search = "search: {algorithm.n_epochs: {kind: int, low: 1, high: 2}}\n"
    Path("bad.yaml").write_text(text + search)
    assert refused(cli, *reading_command, "bad.yaml").startswith(said)


RESIDUAL = NETWORKS.replace("cnn", "impala")


@pytest.mark.parametrize(
    ("study", "search", "said"),
    [
        (
            SMALL,
            SEARCH % ("kind", "cnn, mlp"),
            "bad.yaml:9: search.algorithm.network.kind.choices.1: mlp takes flat observations",
        ),
        (
            SMALL,
            SEARCH % ("convolutions", "[{filters: 4, kernel: 20}], [{filters: 4, kernel: 21}]"),
            "bad.yaml:9: search.algorithm.network.convolutions.choices.1: cnn with these "
            "`convolutions` takes images of 21 x 21 pixels",
        ),
        (
            RESIDUAL,
            SEARCH % ("channels", "[8, 8, 8, 8, 8], [8, 8, 8, 8, 8, 8]"),
            "bad.yaml:9: search.algorithm.network.channels.choices.1: impala with these "
            "`channels` takes images of 33 x 33 pixels",
        ),
    ],
)
def test_a_searched_network_that_is_not_for_the_observations(
    cli: Cli, study: str, search: str, said: str
) -> None:
    Path("bad.yaml").write_text(study + search)
    assert refused(cli, "check", "bad.yaml").startswith(said)


def test_no_file_and_a_directory(cli: Cli, reading_command: tuple[str, ...]) -> None:
    assert refused(cli, *reading_command, "no/file.yaml") == "no/file.yaml: there is no such file"
    Path("folder").mkdir()
    assert refused(cli, *reading_command, "folder").startswith("folder: is a directory")


def test_bytes_that_are_no_text(cli: Cli, reading_command: tuple[str, ...]) -> None:
    Path("bad.yaml").write_bytes(b"\xff\xfe\x00")
    assert refused(cli, *reading_command, "bad.yaml") == "bad.yaml: is not UTF-8 text"


def test_an_unknown_environment_has_near_matches(
    cli: Cli, reading_command: tuple[str, ...]
) -> None:
    write_study(Path("bad.yaml"), trial={"env": {"id": "CartPole-v7"}})
    said = refused(cli, *reading_command, "bad.yaml")
    line = 1 + Path("bad.yaml").read_text().splitlines().index("  env: {id: CartPole-v7}")
    assert said.startswith(f"bad.yaml:{line}: env.id: unknown environment 'CartPole-v7'")
    assert "did you mean CartPole-v1" in said


@pytest.mark.parametrize("command", [c for c in STUDY_COMMANDS if c[0] != "run"])
def test_a_space_without_a_valid_configuration(cli: Cli, command: tuple[str, ...]) -> None:
    search = {"algorithm.n_minibatches": {"kind": "choice", "choices": [3, 5]}}
    write_study(Path("bad.yaml"), search=search)
    assert "no combination in the search can run" in refused(cli, *command, "bad.yaml")


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("nonsense", "--set nonsense: must be path=value"),
        ("x.y=1", "--set x.y=1: x is not a known key"),
        ("trial.parallelism.n_envz=4", "n_envz is not a known key; did you mean `n_envs`?"),
        ("trial.parallelism.n_envs=[1", "the value is not YAML"),
        ("stop.trials=0", "stop.trials must be at least 1, got 0"),
        ("trial.budget.env_steps=0", "budget.env_steps must be at least 1, got 0"),
    ],
)
@pytest.mark.parametrize("command", [c for c in STUDY_COMMANDS if c[0] != "run"])
def test_an_override(cli: Cli, command: tuple[str, ...], assignment: str, said: str) -> None:
    answer = refused(cli, *command, "study.yaml", "--set", assignment)
    assert answer.startswith(f"--set {assignment}: ")
    assert said in answer


@pytest.mark.parametrize("assignment", ["nonsense", "seed=x", "trial.seed=x", "env.kwargz=1"])
def test_an_override_of_a_trial_is_quoted_as_it_was_typed(cli: Cli, assignment: str) -> None:
    answer = refused(cli, "run", "study.yaml", "--set", assignment)
    assert answer.startswith(f"--set {assignment}: ")


def test_more_cores_than_there_are(cli: Cli, reading_command: tuple[str, ...]) -> None:
    trial = "" if reading_command[0] == "run" else "trial."
    wanted = f"{trial}parallelism.cores={len(usable_cores()) + 1}"
    said = refused(cli, *reading_command, "study.yaml", "--set", wanted)
    assert said.startswith(f"--set {wanted}: parallelism.cores ")
    assert f"{len(usable_cores())} usable cores" in said or "usable cores here" in said


READERS = [
    ("status",),
    ("pareto",),
    ("query", "SELECT 1"),
    ("export", "matching", "--trial", "1"),
    ("dashboard", "--port", "0"),
    ("db", "current"),
    ("db", "check"),
    ("db", "upgrade"),
]


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_database_that_is_not_there(cli: Cli, command: tuple[str, ...]) -> None:
    said = refused(cli, *command, "--db", "sqlite:///no.db")
    assert said.startswith("sqlite:///no.db: there is no such file")
    assert refused(cli, *command).startswith("sqlite:///sweeper.db: there is no such file")


@pytest.mark.parametrize("command", [*READERS, ("launch", "study.yaml")], ids=" ".join)
def test_a_database_that_cannot_be_used(cli: Cli, command: tuple[str, ...]) -> None:
    Path("corrupt.db").write_bytes(b"no database, and long enough to be told from one" * 99)
    with sqlite3.connect("foreign.db") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    for url, said in {
        "sqlite:///corrupt.db": "sqlite:///corrupt.db: file is not a database",
        "sqlite:///foreign.db": "sqlite:///foreign.db: holds tables that are not sweeper's",
        "sqlite:///no/x.db": "sqlite:///no/x.db: there is no folder",
        "postgresql://me:secret@127.0.0.1:1/x": "postgresql+psycopg://me:***@127.0.0.1:1/x: ",
        "mysql://x/y": "the database must be sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
    }.items():
        assert refused(cli, *command, "--db", url).startswith(said)


@contextmanager
def not_root(folder: Path) -> Iterator[None]:
    """Root may write everywhere; permissions are checked as somebody else."""
    if os.geteuid() != 0:
        yield
        return
    for parent in (folder, *folder.parents[:2]):  # pytest's, which are private
        parent.chmod(parent.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_may_not_be_written(cli: Cli, results: Path, folder: Path) -> None:
    # Modules are imported as who may read them.
    import sweeper.cli.launch  # noqa: F401

    assert cli("pareto", "--html", "before.html").code == 0
    with sqlite3.connect(results) as connection:  # no log beside it that a reader would need
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    results.chmod(0o444)
    folder.chmod(0o555)
    try:
        with not_root(folder):
            said = refused(cli, "launch", "study.yaml")
            assert said.startswith("sqlite:///sweeper.db: attempt to write a readonly database; ")
            said = refused(cli, "pareto", "--html", "x.html")
            assert said == "x.html cannot be written: Permission denied"
    finally:
        folder.chmod(0o755)


def test_where_a_plot_cannot_be_written(cli: Cli, results: Path) -> None:
    assert refused(cli, "pareto", "--html", "no/x.html").startswith("no/x.html cannot be written: ")
    Path("folder").mkdir()
    assert refused(cli, "pareto", "--html", "folder").startswith("folder cannot be written: ")


def test_an_unknown_study_or_trial(cli: Cli, results: Path) -> None:
    for command in (["status"], ["pareto"], ["export", "--trial", "1"]):
        said = refused(cli, *command, "matchin")
        assert said.startswith("there is no study 'matchin'; did you mean 'matching'?")
    said = refused(cli, "export", "matching", "--trial", "99")
    assert said == "the study has no trial 99; it has 1 to 4"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SELEC 1"], 'the database refused the query: near "SELEC": syntax error'),
        (["SELECT no_column FROM trials"], "no such column"),
        (["SELECT 1; SELECT 2"], "one statement at a time"),
        (["DELETE FROM runs"], "only one SELECT is run"),
        ([""], "give one SELECT"),
        ([], "give the query itself or --file FILE"),
        (["SELECT 1", "--file", "x.sql"], "give the query itself or --file FILE"),
        (["--file", "no.sql"], "no.sql: cannot be read: No such file or directory"),
        (["SELECT 1", "--csv", "--json"], "give one of --csv, --json and --parquet"),
        (["SELECT 1 AS a, 2 AS a", "--json"], "two columns are called 'a'"),
    ],
)
def test_a_query(cli: Cli, results: Path, arguments: list[str], said: str) -> None:
    assert said in refused(cli, "query", *arguments)


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken(cli: Cli, results: Path) -> None:
    with listening() as port:
        said = refused(cli, "dashboard", "--port", str(port))
    assert said.startswith(f"cannot listen on 127.0.0.1:{port}: Address already in use")


def test_a_cluster_that_is_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as port:
        free = f"127.0.0.1:{port}"
    launch = ("launch", "study.yaml", "--db", "sqlite:///new.db")
    silent = f"no Ray cluster answers at {free}: Connection refused; `local` starts one"
    assert refused(cli, *launch, "--ray-address", free).startswith(
        f"--ray-address {free}: {silent}"
    )
    said = refused(cli, *launch, "--set", f"ray.address={free}")
    assert said.startswith(f"--set ray.address={free}: ray.address: {silent}")
    said = refused(cli, *launch, "--ray-address", "here and there")
    assert said.startswith("--ray-address must be auto, local or host:port")
    monkeypatch.setenv("RAY_ADDRESS", free)
    assert f"no Ray cluster answers at RAY_ADDRESS={free}: " in refused(cli, *launch)


def test_labels_without_a_cluster(cli: Cli) -> None:
    write_study(Path("study.yaml"), ray={"labels": {"pool": "lab"}})
    line = 1 + Path("study.yaml").read_text().splitlines().index("  labels: {pool: lab}")
    launch = ("launch", "study.yaml", "--db", "sqlite:///new.db")
    for options in ((), ("--ray-address", "local")):
        said = refused(cli, *launch, *options)
        assert said.startswith(f"study.yaml:{line}: ray.labels: a local Ray has none; name the")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["laumch"], "No such command 'laumch'. Did you mean 'launch'? (see `sweeper --help`)"),
        (["db"], "Missing command. (see `sweeper db --help`)"),
        (["launch"], "Missing argument 'FILE'. (see `sweeper launch --help`)"),
        (["status", "--jsn"], "No such option: --jsn"),
        (["launch", "study.yaml", "--trials", "0"], "Invalid value for '--trials'"),
        (["export", "x", "--trial", "one"], "Invalid value for '--trial'"),
        (["dashboard", "--port", "99999"], "Invalid value for '--port'"),
    ],
)
def test_a_command_line(cli: Cli, arguments: list[str], said: str) -> None:
    assert refused(cli, *arguments).startswith(said)


def test_a_token_that_can_be_guessed_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPER_TOKEN", "secret")
    assert "SWEEPER_TOKEN must have at least 16 characters" in refused(cli, "dashboard")
