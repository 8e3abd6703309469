"""Whether the front still holds on seeds that the search has never seen.

The best of many noisy trials is mostly lucky. Confirmation runs the front again with test
seeds, in training and in evaluation, the same ones for every trial, so that what differs between
trials is the trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from sweeper.core.clock import BudgetSpec
from sweeper.core.records import RunStatus
from sweeper.report.metrics import value_of
from sweeper.report.pareto import front, hypervolume
from sweeper.store import queries
from sweeper.store.rows import RunRow, TrialRow
from sweeper.study.outcome import has_budget
from sweeper.study.recorder import Job
from sweeper.study.spec import ConfirmSpec, StudySpec
from sweeper.trial.spec import TrialSpec

_TEST_STREAM = 1
"""Spawn key that sets test seeds apart from the seeds of the search, which have none."""


def confirmations(
    reader: Engine,
    trials: Sequence[TrialRow],
    spec: StudySpec,
    plan: ConfirmSpec,
    budget: BudgetSpec | None = None,
) -> Iterator[Job]:
    """The runs that are still to be made: of the front's trials and the baseline, on each test
    seed; `budget` replaces their own."""
    objectives = {str(metric): str(d) for metric, d in spec.objectives.items()}
    best = front([trial for trial in trials if has_budget(trial, spec)], objectives)
    chosen = most_missed(best, objectives, plan.top)
    chosen += [t for t in trials if t.origin == "baseline" and t not in chosen]
    for trial in chosen:
        if trial.status != RunStatus.COMPLETED:
            continue
        config = TrialSpec.model_validate_json(trial.config_json)
        made = [r for r in queries.runs(reader, trial.trial_id) if r.seed_kind == "test"]
        for test in confirmation_runs(
            config, seeds=plan.seeds, study_seed=spec.trial.seed, budget=budget
        ):
            same = [run for run in made if run.seed == test.seed]
            if not any(_tells(run, test.budget) for run in same):
                attempt = len(same) + 1
                yield Job(trial.trial_id, trial.number, test, "confirm", attempt, "test")


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


def confirmation_runs(
    trial: TrialSpec, *, seeds: int, study_seed: int, budget: BudgetSpec | None = None
) -> Iterator[TrialSpec]:
    """The trial on each of the study's first `seeds` test seeds; `budget` replaces its own."""
    evaluation = trial.evaluation.model_copy(update={"seed": _seed(study_seed, "evaluation")})
    for index in range(seeds):
        yield trial.model_copy(
            update={
                "seed": _seed(study_seed, index),
                "evaluation": evaluation,
                "budget": budget or trial.budget,
            }
        )


def _tells(run: RunRow, budget: BudgetSpec) -> bool:
    """Whether a run on this budget ended with something to say."""
    same = (run.budget_seconds, run.budget_env_steps) == (budget.seconds, budget.env_steps)
    status = RunStatus(run.status)
    return same and status.is_final and not status.is_retried


def _volume(points: NDArray[np.float64]) -> float:
    k = points.shape[1]
    return hypervolume(points, np.zeros(k), [True] * k)


def _seed(study_seed: int, use: int | str) -> int:
    """Test seed number `use` from 0 on, or the one of all evaluations."""
    key = (_TEST_STREAM, 0) if isinstance(use, str) else (_TEST_STREAM, 1 + use)
    return int(np.random.SeedSequence(study_seed, spawn_key=key).generate_state(1)[0] >> 1)
