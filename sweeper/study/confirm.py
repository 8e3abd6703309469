"""Whether the front still holds on seeds that the search has never seen.

The best of many noisy trials is mostly lucky. Confirmation runs the front again with test
seeds, in training and in evaluation, the same ones for every trial, so that what differs between
trials is the trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sweeper.core.clock import BudgetSpec
from sweeper.core.records import RunStatus
from sweeper.report.metrics import value_of
from sweeper.report.pareto import front, hypervolume
from sweeper.store.rows import AttemptRow, TrialRow
from sweeper.study.attempts import is_open, why_again
from sweeper.study.outcome import has_budget
from sweeper.study.recorder import Job
from sweeper.study.spec import ConfirmSpec, StudySpec
from sweeper.trial.spec import TrialSpec

_TEST_STREAM = 1
"""Spawn key that sets test seeds apart from the seeds of the search, which have none."""


def confirmations(
    attempts: Sequence[AttemptRow],
    trials: Sequence[TrialRow],
    spec: StudySpec,
    plan: ConfirmSpec,
    budget: BudgetSpec | None = None,
) -> Iterator[Job]:
    """The runs that are still to be made: of the front's trials and the baseline, on each test
    seed, and what was asked for of others; `budget` replaces their own.

    attempts: the last ones of the study.
    """
    objectives = {str(metric): str(d) for metric, d in spec.objectives.items()}
    best = front([trial for trial in trials if has_budget(trial, spec)], objectives)
    chosen = most_missed(best, objectives, plan.top)
    chosen += [t for t in trials if t.origin == "baseline" and t not in chosen]
    planned = [_seed(spec.trial.seed, index) for index in range(plan.seeds)]
    tests = [attempt for attempt in attempts if attempt.seed_kind == "test"]
    asked = {attempt.trial_id for attempt in tests if attempt.is_asked}
    others = [t for t in trials if t.trial_id in asked and t not in chosen]
    for trial in (*chosen, *others):
        if trial.status != RunStatus.COMPLETED:
            continue
        config = TrialSpec.model_validate_json(trial.config_json)
        last = [attempt for attempt in tests if attempt.trial_id == trial.trial_id]
        seeds = [a.seed for a in last if a.is_asked and _is_on(a, budget or config.budget)]
        for seed in dict.fromkeys([*(planned if trial in chosen else ()), *seeds]):
            test = confirmation_run(config, seed, study_seed=spec.trial.seed, budget=budget)
            job = _next(trial, test, [attempt for attempt in last if attempt.seed == seed])
            if job is not None:
                yield job


def most_missed(
    front: Sequence[TrialRow], objectives: Mapping[str, str], top: int
) -> list[TrialRow]:
    """Up to `top` trials of a front, each the one that adds most to the hypervolume of those
    before it. The objectives count alike: each by the range it has on the front."""
    if not front:
        return []
    maximize = [direction == "maximize" for direction in objectives.values()]
    values = np.array([[value_of(t, m) for m in objectives] for t in front], dtype=np.float64)
    values = np.where(maximize, values, -values)
    spread = np.ptp(values, axis=0)
    unit = (values - values.min(axis=0)) / np.where(spread > 0, spread, 1.0) + 0.1
    chosen: list[int] = []
    while len(chosen) < min(top, len(front)):
        rest = [i for i in range(len(front)) if i not in chosen]
        chosen.append(max(rest, key=lambda i: _volume(unit[[*chosen, i]])))
    return [front[i] for i in chosen]


def confirmation_run(
    trial: TrialSpec, seed: int, *, study_seed: int, budget: BudgetSpec | None = None
) -> TrialSpec:
    """The trial on a test seed; `budget` replaces its own."""
    evaluation = trial.evaluation.model_copy(update={"seed": _seed(study_seed, "evaluation")})
    return trial.model_copy(
        update={"seed": seed, "evaluation": evaluation, "budget": budget or trial.budget}
    )


def _next(trial: TrialRow, test: TrialSpec, last: Sequence[AttemptRow]) -> Job | None:
    """The next attempt at a run; None where it has said what it has to. `last`: the last attempts
    with its seed, one a budget."""
    same = next((attempt for attempt in last if _is_on(attempt, test.budget)), None)
    number = 1 + max((attempt.attempt for attempt in last), default=0)
    n_other = number - 1 - (same.n_attempts if same else 0)
    kind, why = ("confirm", None) if same is None else ("retry", why_again(same))
    if same is not None and not is_open(same):
        return None
    return Job(trial.trial_id, trial.number, test, kind, number, "test", why, n_other)


def _is_on(attempt: AttemptRow, budget: BudgetSpec) -> bool:
    return (attempt.budget_seconds, attempt.budget_env_steps) == (budget.seconds, budget.env_steps)


def _volume(points: NDArray[np.float64]) -> float:
    k = points.shape[1]
    return hypervolume(points, np.zeros(k), [True] * k)


def _seed(study_seed: int, use: int | str) -> int:
    """Test seed number `use` from 0 on, or the one of all evaluations."""
    key = (_TEST_STREAM, 0) if isinstance(use, str) else (_TEST_STREAM, 1 + use)
    return int(np.random.SeedSequence(study_seed, spawn_key=key).generate_state(1)[0] >> 1)
