"""Rows as the queries return them, made by hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sweeper.store.rows import CurvePoint, MeasurementRow, RunRow, SlotRow, StudyRow, TrialRow

START = datetime(2026, 1, 1, tzinfo=UTC)


def _row(kind: type, known: dict[str, Any]) -> Any:
    return kind(**{field.name: known.get(field.name) for field in fields(kind)})


@pytest.fixture
def make_study() -> Callable[..., StudyRow]:
    def make(**known: Any) -> StudyRow:
        defaults = {
            "study_id": 1,
            "name": "cartpole",
            "created_at": START,
            "version": 1,
            "objectives": {"final_return": "maximize", "steps_per_second": "maximize"},
            "constraints": {},
            "budget_seconds": 10.0,
            "spec_yaml": "",
            "target_trials": 16,
            "status_counts": {},
            "env": "CartPole-v1",
        }
        return _row(StudyRow, defaults | known)

    return make


@pytest.fixture
def make_trial() -> Callable[..., TrialRow]:
    def make(number: int, **known: Any) -> TrialRow:
        defaults = {
            "trial_id": number,
            "study_id": 1,
            "number": number,
            "origin": "sampler",
            "status": "COMPLETED",
            "feasible": True,
            "asked_at": START + timedelta(seconds=10 * (number - 1)),
            "ended_at": START + timedelta(seconds=10 * number),
            "budget_seconds": 10.0,
            "config_json": json.dumps({"seed": number}),
            "params": {"parallelism.n_envs": 2**number, "algorithm.optimizer.learning_rate": 3e-4},
            "n_runs": 1,
        }
        return _row(TrialRow, defaults | known)

    return make


@pytest.fixture
def make_run() -> Callable[..., RunRow]:
    return lambda **known: _row(RunRow, {"run_id": 1, "trial_id": 1, "status": "COMPLETED"} | known)


@pytest.fixture
def make_measurement() -> Callable[..., MeasurementRow]:
    return lambda **known: _row(MeasurementRow, {"run_id": 1} | known)


@pytest.fixture
def make_slot() -> Callable[..., SlotRow]:
    numbers = itertools.count(1)

    def make(**known: Any) -> SlotRow:
        defaults = {
            "run_id": next(numbers),
            "number": known.get("trial_id", 1),
            "kind": "first",
            "seed_kind": "tuning",
            "status": "COMPLETED",
        }
        return _row(SlotRow, defaults | known)

    return make


@pytest.fixture
def make_point() -> Callable[..., CurvePoint]:
    return lambda **known: _row(CurvePoint, {"seed_kind": "tuning"} | known)
