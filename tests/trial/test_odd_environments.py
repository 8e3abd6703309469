"""Environments that do to their process what they should not: the trial ends, with the right
status, and nothing of it stays."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweeper.core.records import RunResult, RunStatus
from sweeper.envs import subproc
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec


def run(how: str, *, mark: str = "", vec_env: str = "subproc", **env: Any) -> RunResult:
    make = {"make": "worlds:Odd", "kwargs": {"how": how, "mark": mark}}
    spec = TrialSpec.model_validate(
        {
            "env": make | env,
            "algorithm": {"kind": "ppo", "n_steps": 16, "n_minibatches": 2, "n_epochs": 1},
            "parallelism": {"vec_env": vec_env, "n_envs": 2},
            "budget": {"env_steps": 256},
            "evaluation": {"episodes": 2},
        }
    )
    *_, result = run_trial(spec)
    assert isinstance(result, RunResult)
    return result


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ("prints a lot", RunStatus.COMPLETED, None),
        ("changes directory", RunStatus.COMPLETED, None),
        ("starts threads", RunStatus.COMPLETED, None),
        ("nan reward", RunStatus.DIVERGED, "NaN"),
        ("wrong shape", RunStatus.ERROR, "observation has shape (1,), its space says (2,)"),
        ("wrong type", RunStatus.ERROR, "its space says float32"),
        ("space of bytes", RunStatus.ERROR, "observation is float32, its space says uint8"),
        ("leaks", RunStatus.OOM, "MemoryError"),
    ],
)
def test_the_status_is_that_of_what_it_does(
    how: str, status: RunStatus, reason: str | None
) -> None:
    result = run(how)
    assert result.status is status, result.reason
    if reason is None:
        assert result.reason is None
    else:
        assert result.reason is not None
        assert reason in result.reason.splitlines()[0]


def test_a_reset_that_hangs_is_a_timeout() -> None:
    result = run("hangs in reset", step_timeout=0.5)
    assert result.status is RunStatus.TIMEOUT
    assert result.reason is not None
    assert "took longer than step_timeout" in result.reason


def test_signals_that_it_ignores_do_not_keep_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subproc, "CLOSE_SECONDS", 0.2)
    mine = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    mark = uuid.uuid4().hex
    assert run("ignores signals", mark=mark).status is RunStatus.COMPLETED
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == mine
    assert of(mark) == []


def test_what_it_does_to_its_process_is_not_done_to_the_trial_s() -> None:
    here, before = Path.cwd(), dict(os.environ)
    assert run("changes directory", mark="theirs").status is RunStatus.COMPLETED
    assert Path.cwd() == here
    assert dict(os.environ) == before


def test_processes_that_it_starts_do_not_outlive_the_trial() -> None:
    mark = uuid.uuid4().hex
    assert run("starts processes", mark=mark).status is RunStatus.COMPLETED
    assert of(mark) == []


def of(mark: str) -> list[str]:
    """What runs that an environment with this mark has started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("ODD_MARK") == mark:
                found.append(" ".join(process.cmdline()))
    return found
