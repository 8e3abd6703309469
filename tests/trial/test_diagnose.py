"""One bottleneck a run: from made-up figures one rule at a time, and from real runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sweeper.core.records import Measurement, PhaseSeconds, RunResult, RunStatus
from sweeper.trial.cores import usable_cores
from sweeper.trial.diagnose import Bottleneck, diagnose
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec


def spec(algorithm: dict[str, Any] | None = None, **parallelism: Any) -> TrialSpec:
    return TrialSpec.model_validate(
        {
            "env": {"id": "CartPole-v1"},
            "algorithm": {"kind": "ppo", "n_steps": 64, "n_minibatches": 4, **(algorithm or {})},
            "parallelism": {"n_envs": 8, **parallelism},
            "budget": {"seconds": 10},
        }
    )


def result(**changes: Any) -> RunResult:
    """Ten seconds in which 10,000 vector steps of 8 environments were taken."""
    known: dict[str, Any] = {
        "status": RunStatus.COMPLETED,
        "reason": None,
        "setup_seconds": 1.0,
        "elapsed_seconds": 10.0,
        "overshoot_seconds": 0.0,
        "env_steps": 80_000,
        "episodes": 100,
        "updates": 100,
        "steps_per_second": 800.0,
        "final_return": 1.0,
        "final_return_stochastic": 1.0,
        "training_return": 1.0,
        "seconds_to_threshold": None,
        "return_area": 1.0,
        "phases": PhaseSeconds(env_wait=3.0, inference=3.0, gradient=3.0, other=1.0),
        "evaluate_seconds": 1.0,
        "cpu_seconds": 9.0,
        "core_seconds": 10.0,
        "cpu_utilization": 0.9,
        "peak_rss_bytes": 1,
        "involuntary_switches": 100,
        "worker_busy_share": 0.9,
        "leased_cores": (0,),
    }
    return RunResult(**(known | changes))


@pytest.mark.parametrize(
    ("algorithm", "advice"),
    [
        ({"kind": "sb3"}, "fewer algorithm.n_epochs than 10"),
        ({"kind": "sb3", "n_epochs": 2}, "a larger algorithm.batch_size than 64"),
        (
            {"kind": "sb3_a2c"},
            "a narrower algorithm.net_arch, or more cores and torch_threads for it",
        ),
        ({"kind": "agents:Guessing"}, "a cheaper update, or more cores and torch_threads for it"),
    ],
)
def test_other_learners_are_advised_in_their_own_terms(algorithm, advice):
    trial = spec().model_dump() | {"algorithm": algorithm}
    learning = result(phases=PhaseSeconds(env_wait=1.0, gradient=9.0))
    found = diagnose(TrialSpec.model_validate(trial), learning)
    assert found == (Bottleneck.LEARNER, advice)


def curve(kl: list[float], returns: list[float], clip_fraction: float = 0.1) -> list[Measurement]:
    n = len(kl)
    return [
        Measurement(
            elapsed_seconds=10.0 * i / n,
            progress=i / n,
            env_steps=100 * i,
            updates=i,
            episodes=i,
            training_return=returns[i],
            episode_length=10.0,
            steps_per_second=800.0,
            learning_rate=1e-3,
            approx_kl=kl[i],
            clip_fraction=clip_fraction,
        )
        for i in range(n)
    ]


WAITING = PhaseSeconds(env_wait=8.0, inference=1.0, gradient=1.0)
LEARNING = PhaseSeconds(env_wait=1.0, inference=1.0, gradient=8.0)
ACTING = PhaseSeconds(inference=6.0, env_wait=2.0, gradient=2.0)
SLOW_STEPS, QUICK_STEPS = 8 * 1_000, 8 * 100_000
"""Env steps in ten seconds, at 10 ms and at 0.1 ms a vector step."""


@pytest.mark.parametrize(
    ("trial", "measured", "bottleneck", "advice"),
    [
        (spec(), result(), "balanced", "more cores only"),
        (spec(), result(phases=WAITING), "environment", "more parallelism.cores than 1"),
        (
            spec(cores=4, envs_per_worker=8),
            result(phases=WAITING, leased_cores=(0, 1, 2, 3)),
            "environment",
            "envs_per_worker of 2",
        ),
        (
            spec(vec_env="serial"),
            result(phases=WAITING, worker_busy_share=None),
            "environment",
            "vec_env: subproc",
        ),
        (
            spec(),
            result(phases=WAITING, worker_busy_share=0.3, foreign_cpu_share=0.6),
            "environment",
            "more parallelism.cores",
        ),
        (
            spec(),
            result(phases=WAITING, worker_busy_share=0.1, env_steps=SLOW_STEPS),
            "latency",
            "envs_per_worker: 1",
        ),
        (
            spec(vec_env="serial"),
            result(
                phases=WAITING, worker_busy_share=None, cpu_utilization=0.1, env_steps=SLOW_STEPS
            ),
            "latency",
            "subproc",
        ),
        (
            spec(envs_per_worker=1),
            result(phases=WAITING, worker_busy_share=0.1, env_steps=SLOW_STEPS),
            "latency",
            "more parallelism.n_envs than 8",
        ),
        (
            spec(envs_per_worker=4),
            result(phases=WAITING, worker_busy_share=0.1, env_steps=QUICK_STEPS),
            "messaging",
            "envs_per_worker of 8",
        ),
        (
            spec(),
            result(phases=WAITING, worker_busy_share=0.1, env_steps=QUICK_STEPS),
            "messaging",
            "vec_env: serial",
        ),
        (
            spec(),
            result(
                phases=PhaseSeconds(inference=6.0, env_wait=2.0, gradient=2.0), env_steps=80_000
            ),
            "per_call_overhead",
            "n_envs of 16",
        ),
        (
            spec({"n_epochs": 1, "n_minibatches": 1}, n_envs=64),
            result(phases=ACTING, env_steps=64_000),
            "learner",
            "narrower",
        ),
        (spec(), result(phases=LEARNING), "learner", "fewer algorithm.n_epochs than 10"),
        (spec({"n_epochs": 2}), result(phases=LEARNING), "learner", "n_minibatches than 4"),
        (
            spec({"n_epochs": 2, "n_minibatches": 1}),
            result(phases=LEARNING),
            "learner",
            "narrower",
        ),
        (
            spec(),
            result(phases=PhaseSeconds(env_wait=1.0, optimizer=6.0, gradient=3.0)),
            "learner",
            "cheaper optimizer than adam",
        ),
        (
            spec(cores=2, envs_per_worker=1),
            result(phases=WAITING, leased_cores=(0, 1), involuntary_switches=5000),
            "oversubscription",
            "envs_per_worker of 4",
        ),
        (
            spec(cores=2, envs_per_worker=1),  # who sleeps does not queue
            result(
                phases=WAITING,
                leased_cores=(0, 1),
                involuntary_switches=5000,
                cpu_utilization=0.2,
                worker_busy_share=0.1,
                env_steps=SLOW_STEPS,
            ),
            "latency",
            "more parallelism.n_envs than 8",
        ),
        (
            spec(torch_threads=4),
            result(phases=LEARNING),
            "oversubscription",
            "torch_threads of at most 1",
        ),
        (spec(), result(updates=5), "too_coarse", "5 updates"),
        (spec(), result(status=RunStatus.DIVERGED), "unstable", "smaller algorithm.optimizer"),
    ],
)
def test_each_rule_has_its_bottleneck_and_advice(
    trial: TrialSpec, measured: RunResult, bottleneck: str, advice: str
) -> None:
    found = diagnose(trial, measured)
    assert found is not None
    assert found.bottleneck == bottleneck
    assert advice in found.advice


RISE = [float(i) for i in range(50)]


@pytest.mark.parametrize(
    ("measurements", "bottleneck"),
    [
        (curve([0.01] * 50, RISE), "balanced"),
        (curve([0.5] * 50, RISE), "balanced"),  # large steps that pay
        (curve([0.5] * 50, [*RISE[:25], *[5.0] * 25]), "unstable"),
        (curve([0.01] * 50, [*RISE[:25], *[5.0] * 25]), "balanced"),  # no fault of the step size
        (curve([0.01] * 50, [9.0] * 50, clip_fraction=0.9), "unstable"),
        (curve([1e-4] * 50, RISE), "too_timid"),
        (curve([1e-4] * 50, [9.0] * 50), "balanced"),  # there is nothing to learn any more
        (curve([1e-4] * 49 + [0.01], RISE), "balanced"),
    ],
)
def test_the_curve_tells_steps_that_are_too_large_from_ones_that_are_too_small(
    measurements: list[Measurement], bottleneck: str
) -> None:
    found = diagnose(spec(), result(), measurements)
    assert found is not None
    assert found.bottleneck == bottleneck


def test_learning_comes_before_speed() -> None:
    found = diagnose(spec(), result(updates=5, phases=WAITING))
    assert found is not None
    assert found.bottleneck is Bottleneck.TOO_COARSE


@pytest.mark.parametrize(
    "failed",
    [
        result(status=RunStatus.LOST),
        result(status=RunStatus.ERROR),
        replace(result(status=RunStatus.TIMEOUT), elapsed_seconds=0.0),
    ],
)
def test_nothing_is_said_of_a_run_that_was_not_measured(failed: RunResult) -> None:
    assert diagnose(spec(), failed) is None


def test_a_run_that_was_pruned_early_is_not_too_coarse() -> None:
    found = diagnose(spec(), result(status=RunStatus.PRUNED, updates=5))
    assert found is not None
    assert found.bottleneck is Bottleneck.BALANCED


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], float]] = {
    # bottleneck, kwargs of worlds:Busy, algorithm, parallelism, seconds
    "an environment that burns CPU": ("environment", {"burn": 2e-3}, {}, {}, 5.5),
    "an environment that sleeps": ("latency", {"sleep": 2e-3}, {}, {}, 2.0),
    "a network that is too wide": (
        "learner",
        {},
        {"network": {"hidden": [1024, 1024]}, "n_epochs": 2, "n_minibatches": 2},
        {},
        4.0,
    ),
    "a batch in which five updates fit": (
        "too_coarse",
        {"burn": 1e-4},
        {"n_steps": 512},
        {},
        2.0,
    ),
    "a learning rate that blows up": (
        "unstable",
        {},
        {
            "max_grad_norm": None,
            "network": {"activation": "relu"},
            "optimizer": {"kind": "sgd", "learning_rate": 10.0},
        },
        {},
        2.0,
    ),
    "eight workers on two cores": (
        "oversubscription",
        {"burn": 5e-4},
        {},
        {"cores": min(2, len(usable_cores())), "n_envs": 8, "envs_per_worker": 1},
        5.5,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_real_runs_are_diagnosed(case: str) -> None:
    bottleneck, kwargs, algorithm, parallelism, seconds = CASES[case]
    trial = TrialSpec.model_validate(
        {
            "env": {"make": "worlds:Busy", "kwargs": kwargs},
            "algorithm": {
                "kind": "ppo",
                "n_steps": 8,
                "n_minibatches": 2,
                "n_epochs": 1,
                **algorithm,
            },
            "parallelism": {"n_envs": 4, **parallelism},
            "budget": {"seconds": seconds},
            "evaluation": {"episodes": 1, "max_seconds": 1},
        }
    )
    events = list(run_trial(trial))
    outcome = events[-1]
    assert isinstance(outcome, RunResult)
    found = diagnose(trial, outcome, [e for e in events if isinstance(e, Measurement)])
    assert found is not None
    assert found.bottleneck == bottleneck, (found, outcome)
