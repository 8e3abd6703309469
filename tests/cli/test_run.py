"""`sweeper run`: on a pipe, on a terminal, interrupted; and of what `sweeper export` printed."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Answer, Cli

COMMAND = str(Path(sys.executable).parent / "sweeper")


def records(answer: Answer) -> list[dict[str, Any]]:
    return [Answer(0, line, "").json for line in answer.out.splitlines()]


def test_a_pipe_gets_one_json_document_a_line_and_the_result_last(cli: Cli) -> None:
    answer = cli("run", "study.yaml")
    assert answer.code == 0
    events = [record["event"] for record in records(answer)]
    assert events[0] == "started"
    assert events[1] == "measurement"
    assert events[-7:] == ["evaluation"] * 6 + ["result"]
    result = records(answer)[-1]
    assert (result["status"], result["env_steps"]) == ("COMPLETED", 640)


def test_a_trial_that_fails_is_a_result_with_a_reason_and_exit_code_1(cli: Cli) -> None:
    broken = '--set=env={make: "worlds:Broken", kwargs: {how: raise}}'
    answer = cli("run", "study.yaml", broken)
    assert answer.code == 1
    result = records(answer)[-1]
    assert (result["event"], result["status"]) == ("result", "ERROR")
    assert "the simulator exploded" in result["reason"]


@pytest.mark.parametrize("number", [1, 4])
def test_an_exported_trial_runs_and_reproduces(cli: Cli, results: Path, number: int) -> None:
    exported = cli("export", "matching", "--trial", str(number))
    assert exported.code == 0
    Path("trial.yaml").write_text(exported.out)
    result = records(cli("run", "trial.yaml"))[-1]
    (stored,) = cli(
        "query", f"SELECT final_return, seed FROM runs WHERE trial_id = {number}", "--json"
    ).json
    assert result["final_return"] == stored["final_return"]
    assert f"seed: {stored['seed']}" in exported.out


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=folder,
            env=os.environ | {"COLUMNS": "100", "LINES": "30", "TERM": "xterm"},
            preexec_fn=lambda: os.login_tty(theirs),  # noqa: PLW1509
        )
        os.close(theirs)
        self.seen = b""

    def read_until(self, text: bytes | None) -> str:
        """All that was seen up to `text`, or to the end."""
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while (text is None or text not in self.seen) and (data := os.read(self._ours, 4096)):
                self.seen += data
        return self.seen.decode()

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def end(self) -> int:
        self.read_until(None)
        os.close(self._ours)
        return self.process.wait(60)


@pytest.mark.system
def test_a_terminal_gets_lines_for_people(folder: Path) -> None:
    terminal = Terminal(folder, "run", "study.yaml")
    assert terminal.end() == 0
    seen = terminal.seen.decode()
    assert "worlds:Matching: ppo for 640 env steps, 2 envs in this process" in seen
    assert "final return" in seen
    assert not [line for line in seen.splitlines() if len(line) > 120]
    assert "{" not in seen


@pytest.mark.system
@pytest.mark.parametrize("vec_env", ["serial", "subproc"])
def test_ctrl_c_ends_a_run_gently(folder: Path, vec_env: str) -> None:
    terminal = Terminal(
        folder,
        *("run", "study.yaml", "--set", "budget={seconds: 600}"),
        *("--set", f"parallelism.vec_env={vec_env}"),
    )
    terminal.read_until(b"env steps")
    terminal.press_ctrl_c()
    assert terminal.end() == 130
    seen = terminal.seen.decode()
    assert "INTERRUPTED: " in seen
    assert "Traceback" not in seen


@pytest.mark.system
def test_sigint_on_a_pipe_ends_with_a_result(folder: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "run", "study.yaml", "--set", "budget={seconds: 600}"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    process.send_signal(2)
    rest, err = process.communicate(timeout=60)
    lines += rest.splitlines()
    assert process.returncode == 130
    assert json.loads(lines[-1])["status"] == "INTERRUPTED"
    assert err == ""


def test_what_was_trained_is_saved_gone_on_with_and_played(cli: Cli) -> None:
    result = records(cli("run", "study.yaml", "--checkpoint", "policy.pt"))[-1]
    played = cli("evaluate", "policy.pt", "--json")
    assert played.code == 0
    assert played.json["mean_return"] == result["final_return"]
    assert played.json["env_steps"] == 640
    more = cli("evaluate", "policy.pt", "--episodes", "7", "--stochastic")
    assert "7 stochastic episodes: return " in more.out
    resumed = cli("run", "--resume", "policy.pt", "--set", "budget.env_steps=1280")
    assert resumed.code == 0
    assert records(resumed)[-1]["env_steps"] == 640
    with_file = cli("run", "study.yaml", "--resume", "policy.pt")
    assert with_file.code == 2
    assert "has spent its budget, 640 of 640 env steps" in with_file.err
    assert "--set budget.env_steps=1280" in with_file.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "needs a study file, or --resume"),
        (("run", "--resume", "study.yaml"), "study.yaml: not a checkpoint of sweeper"),
        (("run", "study.yaml", "--checkpoint", "no/such/folder.pt"), "cannot be written"),
        (("evaluate", "missing.pt"), "missing.pt: No such file"),
    ],
)
def test_checkpoints_that_cannot_be_used_are_one_line(
    cli: Cli, arguments: tuple[str, ...], message: str
) -> None:
    answer = cli(*arguments)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
