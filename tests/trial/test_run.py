"""Trials from spec to result, in this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_info

from sweeper.core.clock import ManualClock, StopSignal
from sweeper.core.records import (
    Evaluation,
    Measurement,
    RunResult,
    RunStatus,
    TrainingStarted,
    TrialEvent,
    WaitingForCores,
)
from sweeper.rl.policy import ActorCritic
from sweeper.trial.cores import LEASES, lease_cores, usable_cores
from sweeper.trial.run import MEASUREMENTS, run_trial
from sweeper.trial.spec import TrialSpec


def spec(env: dict[str, Any] | str = "worlds:Matching", **overrides: Any) -> TrialSpec:
    data: dict[str, Any] = {
        "env": {"make": env} if isinstance(env, str) else env,
        "algorithm": {"kind": "ppo", "n_steps": 16, "n_minibatches": 2, "n_epochs": 2},
        "parallelism": {"vec_env": "serial", "n_envs": 4},
        "budget": {"env_steps": 1024},
        "evaluation": {"episodes": 3},
    }
    for path, value in overrides.items():
        section, _, key = path.partition("__")
        data[section] = {**data[section], key: value} if key else value
    return TrialSpec.model_validate(data)


def run(trial: TrialSpec, **options: Any) -> tuple[list[TrialEvent], RunResult]:
    events = list(run_trial(trial, **options))
    result = events[-1]
    assert isinstance(result, RunResult)
    assert sum(isinstance(event, RunResult) for event in events) == 1
    return events, result


def test_events_come_in_order_and_the_result_is_last() -> None:
    events, result = run(spec())
    kinds = [type(event) for event in events]
    n_measurements = kinds.count(Measurement)
    assert kinds == [
        TrainingStarted,
        *[Measurement] * n_measurements,
        *[Evaluation] * 6,
        RunResult,
    ]
    assert n_measurements == result.updates == 16
    assert result.status is RunStatus.COMPLETED
    assert result.reason is None
    assert result.env_steps == 1024
    assert result.episodes == 100
    assert result.overshoot_seconds == 0.0


def test_measurements_are_bounded_and_the_last_update_is_among_them() -> None:
    events, result = run(spec(budget__env_steps=64 * 700, algorithm__n_epochs=1))
    measurements = [event for event in events if isinstance(event, Measurement)]
    assert result.updates == 700
    assert MEASUREMENTS * 0.9 <= len(measurements) <= MEASUREMENTS + 1
    assert measurements[-1].updates == 700
    assert measurements[-1].progress == 1.0


@pytest.mark.parametrize("overlap", [False, True])
def test_a_trial_trains_on_a_native_vector_env(overlap: bool) -> None:
    parallelism = {"vec_env": "gymnasium", "n_envs": 4, "overlap": overlap}
    events, result = run(spec({"id": "CartPole-v1"}, parallelism=parallelism))
    assert result.status is RunStatus.COMPLETED
    assert result.env_steps == 1024
    assert result.episodes > 0
    started = next(event for event in events if isinstance(event, TrainingStarted))
    assert started.n_workers == 0


@pytest.mark.parametrize("vec_env", ["serial", "subproc"])
@pytest.mark.parametrize("overlap", [False, True])
def test_a_seed_and_a_budget_of_steps_give_one_result_to_the_bit(
    vec_env: str, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same parameters on the serial and the subprocess VecEnv, whatever the timing."""
    policies: list[ActorCritic] = []
    original = ActorCritic.__init__

    def remember(self: ActorCritic, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        policies.append(self)

    monkeypatch.setattr(ActorCritic, "__init__", remember)
    parallel = spec(
        {"id": "CartPole-v1", "normalize_observation": True, "normalize_reward": True},
        parallelism__vec_env=vec_env,
        parallelism__overlap=overlap,
    )
    serial = spec(
        {"id": "CartPole-v1", "normalize_observation": True, "normalize_reward": True},
        parallelism__overlap=overlap,
    )
    results = [run(trial)[1] for trial in (serial, parallel)]
    assert torch.equal(policies[0].flat, policies[1].flat)
    assert results[0].final_return == results[1].final_return
    assert results[0].final_return_stochastic == results[1].final_return_stochastic
    other_seed = run(serial.model_copy(update={"seed": 1}))[1]
    assert not torch.equal(policies[0].flat, policies[2].flat)
    assert other_seed.status is RunStatus.COMPLETED


class SteppingClock(ManualClock):
    """Every look at the time takes a millisecond."""

    def now(self) -> float:
        self.advance(0.001)
        return super().now()


def test_a_budget_of_seconds_ends_by_the_clock_and_phases_sum_to_it() -> None:
    _, result = run(spec(budget={"seconds": 2.0}), clock=SteppingClock())
    assert result.status is RunStatus.COMPLETED
    assert 2.0 <= result.elapsed_seconds < 2.1
    assert result.overshoot_seconds == pytest.approx(result.elapsed_seconds - 2.0, abs=0.01)
    phases = result.phases
    total = phases.rollout + phases.update + phases.normalize + phases.other
    assert total == pytest.approx(result.elapsed_seconds, rel=0.02)
    assert result.steps_per_second == pytest.approx(result.env_steps / result.elapsed_seconds)


def test_a_stop_ends_training_as_interrupted_and_evaluates_nothing() -> None:
    stop = StopSignal()
    events: list[TrialEvent] = []
    for event in run_trial(spec(), stop=stop):
        events.append(event)
        stop.requested = stop.requested or isinstance(event, Measurement)
    result = events[-1]
    assert isinstance(result, RunResult)
    assert result.status is RunStatus.INTERRUPTED
    assert result.updates == 1
    assert not any(isinstance(event, Evaluation) for event in events)


def test_a_pruned_trial_says_why_and_evaluates_nothing() -> None:
    stop = StopSignal()
    events: list[TrialEvent] = []
    for event in run_trial(spec(), stop=stop):
        events.append(event)
        if isinstance(event, Measurement):
            stop.requested, stop.pruned = True, "beaten by trials 1 and 2"
    result = events[-1]
    assert isinstance(result, RunResult)
    assert (result.status, result.reason) == (RunStatus.PRUNED, "beaten by trials 1 and 2")
    assert not any(isinstance(event, Evaluation) for event in events)


def broken(how: str, vec_env: str = "serial") -> TrialSpec:
    env = {"make": "worlds:Broken", "kwargs": {"how": how}}
    return spec(env, parallelism__vec_env=vec_env)


def test_an_environment_that_raises_is_an_error_with_its_traceback() -> None:
    _, result = run(broken("raise"))
    assert result.status is RunStatus.ERROR
    assert result.reason is not None
    assert "the simulator exploded" in result.reason.splitlines()[0]
    assert "worlds.py" in result.reason
    assert result.env_steps == 400  # what was collected is still counted
    assert result.updates > 0


def test_an_environment_that_returns_nan_is_divergence() -> None:
    _, result = run(broken("nan"))
    assert result.status is RunStatus.DIVERGED
    assert result.final_return is None


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_an_environment_process_that_dies_is_lost(how: str) -> None:
    _, result = run(broken(how, vec_env="subproc"))
    assert result.status is RunStatus.LOST


def test_a_learning_rate_that_blows_up_is_divergence() -> None:
    blown = spec(
        algorithm={
            "kind": "ppo",
            "n_steps": 16,
            "n_minibatches": 2,
            "max_grad_norm": None,
            "network": {"activation": "relu"},
            "optimizer": {"kind": "sgd", "learning_rate": 10.0},
        },
        budget__env_steps=64_000,
    )
    _, result = run(blown)
    assert result.status is RunStatus.DIVERGED
    assert result.reason is not None
    assert "NaN" in result.reason


def test_evaluation_is_the_same_for_every_trial_and_marks_what_was_cut() -> None:
    events, result = run(spec({"make": "worlds:Constant", "kwargs": {"length": 5}}))
    episodes = [event for event in events if isinstance(event, Evaluation)]
    assert [(e.deterministic, e.episode) for e in episodes] == [
        (kind, i) for kind in (True, False) for i in range(3)
    ]
    assert all(e.episode_return == 5.0 and e.length == 5 and e.truncated for e in episodes)
    assert result.final_return == result.final_return_stochastic == 5.0
    again, _ = run(spec("worlds:Constant", seed=9))
    seeds = [e.seed for e in again if isinstance(e, Evaluation)]
    assert seeds == [e.seed for e in episodes]


def test_the_study_names_the_policy_that_counts() -> None:
    _, result = run(spec(evaluation__policy="stochastic", budget__env_steps=64))
    assert result.final_return == result.final_return_stochastic


def test_the_threshold_is_reached_by_the_mean_of_a_hundred_episodes() -> None:
    easy = spec({"id": "CartPole-v1"}, budget__env_steps=20_000)
    _, result = run(easy)
    assert result.seconds_to_threshold is None  # censored, not infinite
    assert result.return_area is not None
    assert result.return_area > 0


def test_a_trial_is_pinned_to_the_cores_it_leased_and_the_process_gets_its_own_back() -> None:
    before = os.sched_getaffinity(0)
    inside: set[int] = set()
    for event in run_trial(spec()):
        if isinstance(event, Measurement):
            inside = os.sched_getaffinity(0)
        if isinstance(event, RunResult):
            assert set(event.leased_cores) == inside
    assert len(inside) == 1
    assert os.sched_getaffinity(0) == before


def test_a_trial_reports_what_it_cost() -> None:
    _, result = run(spec(parallelism__vec_env="subproc"))
    assert result.cpu_seconds is not None
    assert result.cpu_seconds > 0
    assert result.peak_rss_bytes is not None
    assert result.peak_rss_bytes > 50e6
    assert result.core_seconds == pytest.approx(result.elapsed_seconds)
    assert result.involuntary_switches is not None


def test_every_thread_of_the_process_is_pinned_while_a_trial_runs() -> None:
    """Pools that torch has started for an earlier trial would stay on its cores otherwise."""
    torch.set_num_threads(2)
    torch.rand(400, 400) @ torch.rand(400, 400)
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    events = run_trial(spec())
    assert isinstance(next(events), TrainingStarted)
    inside = {frozenset(os.sched_getaffinity(thread)) for thread in threads}
    result = list(events)[-1]
    assert isinstance(result, RunResult)
    assert inside == {frozenset(result.leased_cores)}
    assert os.sched_getaffinity(threads[-1]) == os.sched_getaffinity(0)


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_and_every_blas_pool_have_the_threads_of_the_trial(threads: int) -> None:
    before = [pool["num_threads"] for pool in threadpool_info()]
    events = run_trial(spec(parallelism__torch_threads=threads))
    next(events)
    assert torch.get_num_threads() == threads
    pools = threadpool_info()
    assert pools
    assert {pool["num_threads"] for pool in pools} == {min(threads, os.cpu_count() or 1)}
    list(events)
    after = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert set(after) <= set(before)


def test_a_trial_waits_for_cores_and_says_who_holds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASES, str(tmp_path))
    held = lease_cores(len(usable_cores()))
    events = run_trial(spec())
    waiting = next(events)
    assert isinstance(waiting, WaitingForCores)
    assert f"1 wanted, 0 of {len(usable_cores())} cores free" in waiting.reason
    assert f"core 0 is held by process {os.getpid()} on" in waiting.reason
    held.release()
    started = next(events)
    assert isinstance(started, TrainingStarted)
    *_, result = events
    assert isinstance(result, RunResult)
    assert result.status is RunStatus.COMPLETED


def test_a_trial_that_waits_for_cores_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASES, str(tmp_path))
    held = lease_cores(len(usable_cores()))
    stop = StopSignal()
    events = run_trial(spec(), stop=stop)
    next(events)
    stop.requested = True
    (result,) = events
    held.release()
    assert isinstance(result, RunResult)
    assert result.status is RunStatus.INTERRUPTED
    assert result.elapsed_seconds == 0


def test_a_set_up_that_takes_too_long_is_a_timeout() -> None:
    _, result = run(spec(limits={"setup_seconds": 5e-4}), clock=SteppingClock())
    assert result.status is RunStatus.TIMEOUT
    assert result.reason is not None
    assert "limits.setup_seconds" in result.reason
    assert result.env_steps == 0


def test_an_evaluation_that_takes_too_long_counts_what_it_has() -> None:
    endless = spec(
        {"make": "worlds:Constant", "kwargs": {"length": 10**9}},
        evaluation={"episodes": 3, "max_seconds": 0.05},
    )
    events, result = run(endless, clock=SteppingClock())
    episodes = [event for event in events if isinstance(event, Evaluation)]
    assert len(episodes) == 6
    assert all(e.truncated and 0 < e.length < 100 for e in episodes)
    assert all(e.episode_return == e.length for e in episodes)  # partial credit
    assert result.status is RunStatus.COMPLETED
    assert 0.1 <= result.evaluate_seconds < 0.2


class Watched:
    """Notes what a watchdog is told."""

    def __init__(self) -> None:
        self.told: list[float | None] = []

    def arm(self, seconds: float, reason: str) -> None:
        assert reason
        self.told.append(seconds)

    def disarm(self) -> None:
        self.told.append(None)


@pytest.mark.parametrize(
    ("budget", "training"), [({"seconds": 2.0}, 2.0 + 5.0), ({"env_steps": 256}, None)]
)
def test_the_watchdog_has_a_limit_for_each_part_of_a_trial(
    budget: dict[str, float], training: float | None
) -> None:
    watchdog = Watched()
    limits = {"setup_seconds": 50.0, "grace_seconds": 5.0}
    trial = spec(budget=budget, limits=limits, evaluation={"episodes": 1, "max_seconds": 7.0})
    _, result = run(trial, clock=SteppingClock(), watchdog=watchdog)
    assert result.status is RunStatus.COMPLETED
    assert watchdog.told == [50.0, training, 2 * 7.0 + 5.0, None]


@pytest.mark.parametrize("policy", ["deterministic", "stochastic"])
def test_the_untrained_policy_is_evaluated_on_request_and_training_is_the_same(policy: str) -> None:
    trial = spec(evaluation={"episodes": 5, "policy": policy})
    (started, *rest), _ = run(trial, untrained=True)
    (plain, *others), _ = run(trial)
    assert isinstance(started, TrainingStarted)
    assert isinstance(plain, TrainingStarted)
    assert plain.untrained_return is None
    played = [event for event in rest if isinstance(event, Evaluation)]
    assert played == [event for event in others if isinstance(event, Evaluation)]

    still = spec(
        evaluation=trial.evaluation, algorithm__optimizer={"kind": "adam", "learning_rate": 1e-12}
    )
    assert run(still)[1].final_return == started.untrained_return


def test_the_evaluation_of_the_untrained_policy_has_a_limit_and_is_off_the_budget() -> None:
    watchdog = Watched()
    endless = spec(
        {"make": "worlds:Constant", "kwargs": {"length": 10**9}},
        evaluation={"episodes": 3, "max_seconds": 0.05},
        limits={"setup_seconds": 50.0, "grace_seconds": 5.0},
        budget={"env_steps": 64},
    )
    (started, *_), result = run(endless, clock=SteppingClock(), watchdog=watchdog, untrained=True)
    assert isinstance(started, TrainingStarted)
    assert started.untrained_return is not None
    assert 0 < started.untrained_return < 100  # partial credit
    assert started.setup_seconds < 0.05
    assert result.setup_seconds == started.setup_seconds
    assert watchdog.told == [50.0, 0.05 + 5.0, None, 2 * 0.05 + 5.0, None]


def test_a_trial_that_fails_leaves_no_limit_behind() -> None:
    watchdog = Watched()
    _, result = run(broken("raise"), watchdog=watchdog)
    assert result.status is RunStatus.ERROR
    assert watchdog.told[-1] is None


def test_workers_that_burn_are_busy_and_workers_that_sleep_are_not() -> None:
    shares = [
        run(
            spec(
                {"make": "worlds:Busy", "kwargs": kwargs},
                parallelism__vec_env="subproc",
                budget__env_steps=128,
            )
        )[1].worker_busy_share
        for kwargs in ({"burn": 2e-3}, {"sleep": 2e-3})
    ]
    assert None not in shares
    assert shares[0] > 2 * shares[1]  # type: ignore[operator]
    assert run(spec())[1].worker_busy_share is None  # serial: there are none
