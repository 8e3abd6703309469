"""One bottleneck and one piece of advice a run, from what was measured. Pure.

Learning comes before speed: a run that is unstable, or that updates five times, gains nothing
by being faster. Of the phases one must take more than half of the budget to be named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from statistics import median
from typing import NamedTuple

from sweeper.core.records import Measurement, RunResult, RunStatus
from sweeper.rl.foreign import CustomSpec, SB3PPOSpec, SB3Spec
from sweeper.rl.spec import PPOSpec
from sweeper.trial.spec import TrialSpec


class Bottleneck(StrEnum):
    """What limits a run: the values of the column `bottleneck`."""

    UNSTABLE = "unstable"
    TOO_COARSE = "too_coarse"
    TOO_TIMID = "too_timid"
    OVERSUBSCRIPTION = "oversubscription"
    ENVIRONMENT = "environment"
    LATENCY = "latency"
    """The environments wait for something (they sleep), and the learner for them."""
    MESSAGING = "messaging"
    PER_CALL_OVERHEAD = "per_call_overhead"
    LEARNER = "learner"
    BALANCED = "balanced"
    """No phase takes half of the budget."""


class Diagnosis(NamedTuple):
    """What limits a run, and one change to try."""

    bottleneck: Bottleneck
    advice: str


DOMINATES = 0.5
"""Share of the elapsed time."""
FEW_UPDATES = 10
HIGH_KL, HIGH_CLIP_FRACTION = 0.1, 0.5
"""An update this large is a spike: PPO's usual KL is 0.01, and a tenth is clipped."""
COLLAPSE = 0.5
"""Share of what was gained in return that is lost again."""
TINY_KL = 1e-3
RISING = 0.05
"""Gain in the last fifth of a run, as a share of all that was gained."""
MANY_SWITCHES = 50.0
"""Involuntary switches a second and core: two processes that take turns have more."""
SATURATED = 0.8
"""Share of the core-time that was used, by the trial or by others: processes queue for it."""
BUSY_WORKERS = 0.4
MESSAGE_SECONDS = 1e-3
"""A vector step whose wait is longer is not explained by waking workers and hearing from them,
which takes a tenth of it."""
FEW_ENVS = 32
CALL_SECONDS = 1e-3
"""An inference call that takes longer computes; one that takes less is mostly overhead."""
SMALL_MINIBATCH = 1024
MANY_EPOCHS = 4


def diagnose(
    spec: TrialSpec, result: RunResult, curve: Sequence[Measurement] = ()
) -> Diagnosis | None:
    """What limited the run; None for one that was not measured: it never trained, or its
    process, not its configuration, failed it.

    curve: the run's measurements, in order.
    """
    if not result.elapsed_seconds or result.status in (RunStatus.ERROR, RunStatus.LOST):
        return None
    return next(_findings(spec, result, curve))


def _findings(
    spec: TrialSpec, result: RunResult, curve: Sequence[Measurement]
) -> Iterator[Diagnosis]:
    """All that can be said, the gravest first; never empty."""
    yield from _learning(spec, result, curve)
    yield from _oversubscription(spec, result)
    yield from _phases(spec, result)
    yield Diagnosis(
        Bottleneck.BALANCED,
        "no phase takes half of the time: more of everything is to be had by more cores only",
    )


def _learning(
    spec: TrialSpec, result: RunResult, curve: Sequence[Measurement]
) -> Iterator[Diagnosis]:
    rate, batch = _learning_rate(spec), spec.batch_size
    larger = "" if batch is None else f", or a larger batch than {batch}"
    if result.status is RunStatus.DIVERGED or (_spikes(curve) and _collapses(curve)):
        yield Diagnosis(
            Bottleneck.UNSTABLE,
            f"a smaller {rate}{larger}",
        )
    if result.status is RunStatus.COMPLETED and result.updates < FEW_UPDATES:
        yield Diagnosis(
            Bottleneck.TOO_COARSE,
            f"{_coarseness(spec)}: {result.updates} updates fitted into the budget",
        )
    if _is_timid(curve):
        yield Diagnosis(
            Bottleneck.TOO_TIMID,
            f"a larger {rate}, or a schedule that falls later: updates are tiny and the return "
            "still rises",
        )


def _learning_rate(spec: TrialSpec) -> str:
    match spec.algorithm:
        case CustomSpec():
            return "step of the learner"
        case SB3Spec(learning_rate=rate):
            return f"algorithm.learning_rate than {rate:g}"
        case algorithm:
            return f"algorithm.optimizer.learning_rate than {algorithm.optimizer.learning_rate:g}"


def _coarseness(spec: TrialSpec) -> str:
    if isinstance(spec.algorithm, CustomSpec):
        return "less data for each update"
    n_envs, n_steps = spec.parallelism.n_envs, spec.algorithm.n_steps
    return f"smaller parallelism.n_envs x algorithm.n_steps than {n_envs} x {n_steps}"


def _spikes(curve: Sequence[Measurement]) -> bool:
    return any(
        (m.approx_kl or 0.0) > HIGH_KL or (m.clip_fraction or 0.0) > HIGH_CLIP_FRACTION
        for m in curve
    )


def _returns(curve: Sequence[Measurement]) -> list[float]:
    return [m.training_return for m in curve if m.training_return is not None]


def _collapses(curve: Sequence[Measurement]) -> bool:
    returns = _returns(curve)
    if not returns:
        return False
    gained = max(returns) - returns[0]
    # Where nothing was ever gained, updates of that size are why.
    return max(returns) - returns[-1] >= COLLAPSE * gained


def _is_timid(curve: Sequence[Measurement]) -> bool:
    kls = [m.approx_kl for m in curve if m.approx_kl is not None]
    returns = _returns(curve)
    if len(kls) < FEW_UPDATES or len(returns) < FEW_UPDATES or max(kls) > TINY_KL:
        return False
    fifth = len(returns) // 5
    recent = median(returns[-fifth:]) - median(returns[-2 * fifth : -fifth])
    return recent > RISING * (max(returns) - min(returns))


def _oversubscription(spec: TrialSpec, result: RunResult) -> Iterator[Diagnosis]:
    parallelism = spec.parallelism
    cpus = len(result.leased_cores) or parallelism.cores
    switches = (result.involuntary_switches or 0) / result.elapsed_seconds / parallelism.cores
    if parallelism.torch_threads > cpus:
        yield Diagnosis(
            Bottleneck.OVERSUBSCRIPTION,
            f"parallelism.torch_threads of at most {cpus}: {parallelism.torch_threads} threads "
            "share them",
        )
    used = (result.cpu_utilization or 0.0) + (result.foreign_cpu_share or 0.0)
    if parallelism.n_workers > cpus and switches > MANY_SWITCHES and used > SATURATED:
        yield Diagnosis(
            Bottleneck.OVERSUBSCRIPTION,
            f"parallelism.envs_per_worker of {-(-parallelism.n_envs // cpus)}: "
            f"{parallelism.n_workers} workers share {cpus} cores",
        )


def _phases(spec: TrialSpec, result: RunResult) -> Iterator[Diagnosis]:
    phases, half = result.phases, DOMINATES * result.elapsed_seconds
    vector_steps = max(1.0, result.env_steps / spec.parallelism.n_envs)
    if phases.env_wait > half:
        yield _waiting(spec, result, wait_seconds=phases.env_wait / vector_steps)
    one_call = phases.inference / vector_steps
    learning = phases.update + (phases.inference if one_call > CALL_SECONDS else 0.0)
    if learning > half:
        yield Diagnosis(Bottleneck.LEARNER, _cheaper_learning(spec, result))
    # What a vector step costs in Python besides the environments, however many they are.
    by_call, n_envs = (
        phases.inference + phases.bookkeeping + phases.normalize,
        spec.parallelism.n_envs,
    )
    if by_call > half and n_envs <= FEW_ENVS:
        yield Diagnosis(
            Bottleneck.PER_CALL_OVERHEAD,
            f"parallelism.n_envs of {2 * n_envs} or more: a step costs about the same for all",
        )


def _waiting(spec: TrialSpec, result: RunResult, *, wait_seconds: float) -> Diagnosis:
    parallelism = spec.parallelism
    cores, n_workers, n_envs = parallelism.cores, parallelism.n_workers, parallelism.n_envs
    busy = result.worker_busy_share
    if n_workers == 0:  # the learner's own process steps them: it is busy with it, or asleep
        busy = result.cpu_utilization and result.cpu_utilization * cores
    if busy is not None:  # of the time that others left to them
        busy /= max(0.1, 1.0 - (result.foreign_cpu_share or 0.0))
    if busy is None or busy >= BUSY_WORKERS:
        if n_workers == 0:
            advice = "parallelism.vec_env: subproc, with as many cores as there are free ones"
        elif n_workers < min(cores, n_envs):
            advice = f"parallelism.envs_per_worker of {-(-n_envs // cores)}: cores are free"
        else:
            advice = f"more parallelism.cores than {cores}, and so workers, while some are free"
        return Diagnosis(Bottleneck.ENVIRONMENT, advice)
    if wait_seconds > MESSAGE_SECONDS:
        # Sleepers need no core: one after another in a worker, they add up.
        if n_workers < n_envs:
            advice = (
                "parallelism.vec_env: subproc, envs_per_worker: 1: environments that wait for "
                "something can do so at the same time, on however few cores"
            )
        else:
            advice = (
                f"more parallelism.n_envs than {n_envs}, each in a worker of its own: they wait "
                "for something, and can do so at the same time"
            )
        return Diagnosis(Bottleneck.LATENCY, advice)
    if n_workers == 1:
        return Diagnosis(Bottleneck.MESSAGING, "parallelism.vec_env: serial")
    return Diagnosis(
        Bottleneck.MESSAGING,
        f"parallelism.envs_per_worker of {2 * parallelism.resolved_envs_per_worker} or more, or "
        "vec_env: serial: waking workers takes longer than their steps",
    )


def _cheaper_learning(spec: TrialSpec, result: RunResult) -> str:
    phases, algorithm = result.phases, spec.algorithm
    match algorithm:
        case CustomSpec():
            return "a cheaper update, or more cores and torch_threads for it"
        case SB3PPOSpec(n_epochs=n_epochs) if n_epochs > MANY_EPOCHS:
            return f"fewer algorithm.n_epochs than {n_epochs}"
        case SB3PPOSpec(batch_size=size) if size < SMALL_MINIBATCH:
            return f"a larger algorithm.batch_size than {size}"
        case SB3Spec():
            return "a narrower algorithm.net_arch, or more cores and torch_threads for it"
    if phases.optimizer > 0.5 * phases.update:
        return f"a cheaper optimizer than {algorithm.optimizer.kind}, or fewer steps of it"
    if isinstance(algorithm, PPOSpec):
        if algorithm.n_epochs > MANY_EPOCHS:
            return f"fewer algorithm.n_epochs than {algorithm.n_epochs}"
        if (spec.minibatch_size or 0) < SMALL_MINIBATCH and algorithm.n_minibatches > 1:
            return f"fewer algorithm.n_minibatches than {algorithm.n_minibatches}: larger ones"
    return "a narrower algorithm.network, or more cores and torch_threads for it"
