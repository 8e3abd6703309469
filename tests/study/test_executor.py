"""One contract for every executor: each submitted run ends in exactly one result."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from sweeper.core.records import (
    Evaluation,
    Measurement,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
    WaitingForCores,
)
from sweeper.study.executor import Executor, InlineExecutor
from sweeper.study.resources import Resources
from sweeper.trial.spec import LimitsSpec, TrialSpec

WAIT_SECONDS = 60.0


@pytest.fixture(scope="module")
def ray_executor() -> Iterator[Any]:
    from sweeper.study.ray_executor import RayExecutor

    executor = RayExecutor("local")
    yield executor
    executor.close()


@pytest.fixture(params=["inline", pytest.param("ray", marks=pytest.mark.system)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "ray":
        yield request.getfixturevalue("ray_executor")
    else:
        inline = InlineExecutor()
        yield inline
        inline.close()


def trial(env: dict[str, Any] | None = None, **budget: Any) -> TrialSpec:
    return TrialSpec.model_validate(
        {
            "env": env or {"make": "worlds:Matching"},
            "algorithm": {"kind": "ppo", "n_steps": 16, "n_minibatches": 2, "n_epochs": 1},
            "parallelism": {"vec_env": "subproc", "n_envs": 4},
            "budget": budget or {"env_steps": 256},
            "evaluation": {"episodes": 2},
        }
    )


def drain(executor: Executor, n_runs: int) -> dict[int, list[TrialEvent]]:
    events: dict[int, list[TrialEvent]] = defaultdict(list)
    ended = 0
    while ended < n_runs:
        arrived = executor.events(WAIT_SECONDS)
        assert arrived, "nothing happened in time"
        for run_id, event in arrived:
            events[run_id].append(event)
            ended += isinstance(event, RunResult)
    return events


def test_a_run_streams_its_events_in_order(executor: Executor) -> None:
    assert executor.fits(trial())
    executor.submit(7, trial())
    events = drain(executor, 1)[7]
    kinds = [type(event) for event in events if not isinstance(event, WaitingForCores)]
    assert kinds == [TrainingStarted, *[Measurement] * 4, *[Evaluation] * 4, RunResult]


def test_cores_are_free_again_after_a_run(executor: Executor) -> None:
    for run_id in range(3):
        assert executor.fits(trial())
        executor.submit(run_id, trial())
        (result,) = (e for e in drain(executor, 1)[run_id] if isinstance(e, RunResult))
        assert result.status is RunStatus.COMPLETED, result.reason


def test_a_trial_larger_than_everything_does_not_fit(executor: Executor) -> None:
    parallelism = trial().parallelism.model_copy(update={"cores": executor.total_cores + 1})
    assert not executor.fits(trial().model_copy(update={"parallelism": parallelism}))


def test_what_a_trial_larger_than_everything_lacks_is_named(executor: Executor) -> None:
    assert executor.lacking(trial()) is None
    cores = executor.total_cores + 1
    parallelism = trial().parallelism.model_copy(update={"cores": cores})
    too_large = trial().model_copy(update={"parallelism": parallelism})
    assert executor.lacking(too_large) == Resources(cores)


@pytest.mark.system
def test_gpus_are_those_that_ray_counts(ray_executor: Any) -> None:
    parallelism = trial().parallelism.model_copy(update={"gpus": 10_000})
    too_large = trial().model_copy(update={"parallelism": parallelism})
    assert not ray_executor.fits(too_large)
    assert ray_executor.lacking(too_large) == Resources(0, 10_000)


def test_a_failing_trial_is_a_result_and_the_next_one_runs(executor: Executor) -> None:
    executor.submit(1, trial({"make": "worlds:Broken", "kwargs": {"how": "raise", "after": 20}}))
    assert drain(executor, 1)[1][-1].status is RunStatus.ERROR  # type: ignore[union-attr]
    executor.submit(2, trial())
    assert drain(executor, 1)[2][-1].status is RunStatus.COMPLETED  # type: ignore[union-attr]


def test_a_stop_interrupts_what_runs_and_nothing_later(executor: Executor) -> None:
    executor.submit(1, trial(seconds=3600.0))
    while not any(isinstance(event, Measurement) for _, event in executor.events(WAIT_SECONDS)):
        pass
    executor.stop()
    assert drain(executor, 1)[1][-1].status is RunStatus.INTERRUPTED  # type: ignore[union-attr]


def test_one_run_is_pruned_and_the_next_one_is_not(executor: Executor) -> None:
    executor.submit(1, trial(seconds=3600.0))
    while not any(isinstance(event, Measurement) for _, event in executor.events(WAIT_SECONDS)):
        pass
    executor.prune(2, "there is no such run")
    executor.prune(1, "beaten")
    result = drain(executor, 1)[1][-1]
    assert isinstance(result, RunResult)
    assert (result.status, result.reason) == (RunStatus.PRUNED, "beaten")
    executor.submit(2, trial())
    assert drain(executor, 1)[2][-1].status is RunStatus.COMPLETED  # type: ignore[union-attr]


@pytest.mark.system
def test_a_killed_worker_is_lost_and_its_core_and_children_are_free(ray_executor: Any) -> None:
    ray_executor.submit(1, trial(seconds=3600.0))
    pid = 0
    while not pid:
        for _, event in ray_executor.events(WAIT_SECONDS):
            if isinstance(event, TrainingStarted):
                (pid,) = ray_executor.worker_pids()
    children = psutil.Process(pid).children(recursive=True)
    assert children
    os.kill(pid, signal.SIGKILL)
    result = drain(ray_executor, 1)[1][-1]
    assert isinstance(result, RunResult)
    assert result.status is RunStatus.LOST
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    assert ray_executor.fits(trial())
    ray_executor.submit(2, trial())
    assert drain(ray_executor, 1)[2][-1].status is RunStatus.COMPLETED


@pytest.mark.system
@pytest.mark.parametrize("vec_env", ["serial", "subproc"])
def test_a_trial_that_hangs_is_ended_by_the_watchdog_as_a_timeout(
    ray_executor: Any, vec_env: str
) -> None:
    """In C code, with the interpreter's lock held, and no step time-out to help."""
    hanging = trial({"make": "worlds:Hanging", "step_timeout": 1e6}, seconds=1.0)
    hung = hanging.model_copy(
        update={
            "limits": LimitsSpec(grace_seconds=1.0),
            "parallelism": hanging.parallelism.model_copy(update={"vec_env": vec_env}),
        }
    )
    ray_executor.submit(1, hung)
    (pid,) = ray_executor.worker_pids()
    worker = psutil.Process(pid)
    children: list[psutil.Process] = []
    result = None
    while result is None:
        for _, event in ray_executor.events(WAIT_SECONDS):
            if isinstance(event, TrainingStarted):
                children = worker.children(recursive=True)
            if isinstance(event, RunResult):
                result = event
    assert result.status is RunStatus.TIMEOUT
    assert result.reason == (
        "training did not end within limits.grace_seconds = 1 after its budget of 1 s"
    )
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    ray_executor.submit(2, trial())
    assert drain(ray_executor, 1)[2][-1].status is RunStatus.COMPLETED


@pytest.mark.system
def test_runs_share_the_cores_without_sharing_one(ray_executor: Any) -> None:
    n = ray_executor.total_cores
    for run_id in range(n):
        assert ray_executor.fits(trial())
        ray_executor.submit(run_id, trial())
    assert not ray_executor.fits(trial())
    results = [events[-1] for events in drain(ray_executor, n).values()]
    cores = [core for result in results for core in result.leased_cores]  # type: ignore[union-attr]
    # Short runs may follow each other on one core; those at once never share it.
    assert len(cores) >= n
    assert all(result.status is RunStatus.COMPLETED for result in results)  # type: ignore[union-attr]
