"""`sweeper bench envs`, for real but briefly: what it measures is not looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import Cli, write_study

from sweeper.trial.cores import lease_cores, usable_cores

N_CORES = len(usable_cores())


@pytest.fixture(autouse=True)
def _own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPER_LEASES", str(tmp_path / "leases"))


def brief(*more: str) -> tuple[str, ...]:
    return ("bench", "envs", "--env", "CartPole-v1", "--seconds", "0.05", *more)


def test_a_bench_measures_every_layout_and_recommends_one_of_them(cli: Cli) -> None:
    answer = cli(*brief("--n-envs", "1,2", "--workers", "1", "--json"))
    assert answer.code == 0, answer.err
    found = answer.json
    assert [bare["processes"] for bare in found["bare"]] == sorted({1, N_CORES})
    layouts = [(row["vec_env"], row["n_envs"], row["n_workers"]) for row in found["layouts"]]
    for n_envs in (1, 2):
        for layout in (("serial", n_envs, 0), ("subproc", n_envs, 1), ("gymnasium", n_envs, 0)):
            assert layout in layouts
    for row in found["bare"] + found["layouts"]:
        assert len(row["rates"]) == 3
        assert min(row["rates"]) > 0
    best = found["recommended"]["layout"]
    assert (best["vec_env"], best["n_envs"], best["n_workers"]) in layouts
    assert found["host"]["usable_cores"] == N_CORES


def test_the_lines_that_a_bench_prints_make_a_study_that_is_valid(cli: Cli, folder: Path) -> None:
    answer = cli(*brief("--n-envs", "2", "--workers", "1", "--html", "layouts.html"))
    assert answer.code == 0, answer.err
    assert "recommended: " in answer.out
    assert "wrote layouts.html" in answer.out
    page = Path("layouts.html").read_text()
    assert "CartPole-v1: environments and workers" in page
    assert "src=" not in page.partition("<body>")[2].partition("<script")[0]
    lines = answer.out.partition("\ntrial:\n")[2].splitlines()
    assert lines[0].strip() in ("parallelism:", "env:")


@pytest.mark.slow
def test_a_bench_with_training_tells_speeds_and_returns_of_it(cli: Cli) -> None:
    answer = cli(*brief("--n-envs", "2", "--workers", "1", "--train", "--json"))
    assert answer.code == 0, answer.err
    for row in answer.json["layouts"]:
        assert len(row["training_rates"]) == len(row["final_returns"]) == 3
        assert row["training_steps_per_second"] > 0
        assert row["final_return"] >= 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--n-envs", "0,2"), "--n-envs must be whole numbers of at least 1"),
        (("--n-envs", "two"), "--n-envs must be whole numbers of at least 1"),
        (("--workers", "1,4096"), f"--workers: 4096 asked for, {N_CORES} cores usable here"),
        (("--env", "CartPole-v7"), "unknown environment 'CartPole-v7'"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    cli: Cli, options: tuple[str, ...], said: str
) -> None:
    answer = cli(*brief(*options))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"sweeper: {said}")
    assert answer.err.count("\n") == 1


def test_a_bench_beside_a_trial_is_refused(cli: Cli) -> None:
    lease = lease_cores(1)
    try:
        answer = cli(*brief("--n-envs", "1", "--workers", "1"))
    finally:
        lease.release()
    assert answer.code == 2
    assert "a bench needs all cores to itself: core " in answer.err


def test_a_native_implementation_that_there_is_not_is_refused_at_its_line(
    cli: Cli, folder: Path
) -> None:
    trial = {"env": {"id": "Acrobot-v1"}, "parallelism": {"vec_env": "gymnasium", "n_envs": 2}}
    write_study(folder / "native.yaml", trial=trial)
    answer = cli("check", "native.yaml")
    assert answer.code == 2
    assert "vec_env: Acrobot-v1 has no native vector implementation" in answer.err
    search = {
        "parallelism.vec_env": {"kind": "choice", "choices": ["serial", "subproc", "gymnasium"]}
    }
    write_study(folder / "searched.yaml", trial={"env": {"id": "Acrobot-v1"}}, search=search)
    answer = cli("check", "searched.yaml")
    assert answer.code == 2
    assert "search.parallelism.vec_env: Acrobot-v1 has no native" in answer.err
    write_study(folder / "cartpole.yaml", trial={"env": {"id": "CartPole-v1"}}, search=search)
    assert cli("check", "cartpole.yaml").code == 0


def test_a_native_implementation_that_only_the_baseline_or_an_override_asks_for_is_refused(
    cli: Cli, folder: Path
) -> None:
    baseline = {"set": {"parallelism.vec_env": "gymnasium"}}
    write_study(folder / "study.yaml", trial={"env": {"id": "Acrobot-v1"}}, baseline=baseline)
    answer = cli("check", "study.yaml")
    assert answer.code == 2
    assert "baseline.set.parallelism.vec_env: Acrobot-v1 has no native" in answer.err
    write_study(folder / "study.yaml", trial={"env": {"id": "Acrobot-v1"}})
    override = "trial.parallelism.vec_env=gymnasium"
    for command in ("check", "run"):
        answer = cli(command, "study.yaml", "--set", override)
        assert answer.code == 2
        assert answer.err.startswith(f"sweeper: --set {override}: parallelism.vec_env: Acrobot-v1")
