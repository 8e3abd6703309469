"""Trials that take no time: a model of recorded runs, with their noise.

The true value of a configuration is a Gaussian process's mean over the recorded runs. What a run
shows is that plus noise: the difference between two seeds of a recorded configuration nearby,
divided by the root of 2, so that noise is large where it was large, and a lucky return comes with
the curve and the speed of the same luck.
"""

from __future__ import annotations

import gzip
import heapq
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gaussian_process import GaussianProcess
from numpy.typing import NDArray

from sweeper.core.clock import ManualClock
from sweeper.core.records import Measurement, PhaseSeconds, RunResult, RunStatus, TrialEvent
from sweeper.study.designs import sobol_point
from sweeper.study.executor import Notice, RunEvent
from sweeper.study.parameters import (
    FloatParameter,
    IntParameter,
    Parameter,
    Params,
    ParamValue,
    Pow2Parameter,
)
from sweeper.study.resources import Need, Resources, lacking
from sweeper.study.space import SearchSpace
from sweeper.study.spec import StudySpec
from sweeper.trial.spec import TrialSpec

Floats = NDArray[np.float64]

NEIGHBORS = 8
"""Recorded pairs of seeds from which noise is drawn."""
CHOICE_DISTANCE = 0.5
"""Between two values of a choice, as a share of a whole range."""


@dataclass(frozen=True)
class Outcome:
    """What a run shows, or (without noise) what is true of a configuration."""

    final_return: float
    steps_per_second: float
    curve: Floats
    """Training return at each share of the budget that was recorded."""


class Surrogate:
    """The recorded runs of one environment, as a function of the configuration."""

    def __init__(self, recorded: dict[str, Any], env_id: str) -> None:
        environment = recorded["environments"][env_id]
        self.env_id = env_id
        self.trial: dict[str, Any] = environment["trial"]
        self.search: dict[str, Any] = recorded["search"]
        self.budget_seconds: float = environment["budget_seconds"]
        self.progress: Floats = np.array(recorded["progress"])
        self.space = _space(self.trial, self.search)
        runs = [
            run
            for run in environment["runs"]
            if run["training_return"] and run["final_return"] is not None and not run["contended"]
        ]
        self._x = np.array([units(self.space, run["params"]) for run in runs])
        curves = np.array([run["training_return"] for run in runs])
        returns = np.array([run["final_return"] for run in runs])
        speeds = np.log([run["steps_per_second"] for run in runs])
        # All that a run shows, as columns: return, log speed, curve.
        self._shown = np.column_stack([returns, speeds, curves])
        self._overheads = np.array([run["overhead_seconds"] for run in runs])
        self._bounds = self._shown.min(axis=0), self._shown.max(axis=0)
        thinned = [0, 1, *range(2, self._shown.shape[1], 3), self._shown.shape[1] - 1]
        self._columns = sorted(set(thinned))
        self._models = [GaussianProcess(self._x, self._shown[:, c]) for c in self._columns]
        self._pairs, self._differences = self._pairs_of_seeds()

    def truth(self, params: Params) -> Outcome:
        """The values without noise."""
        return self._outcome(self._means(units(self.space, params)[None, :])[0])

    def run(self, params: Params, *, seed: int) -> Outcome:
        """What a run with this seed shows."""
        x = units(self.space, params)
        random = np.random.default_rng([seed, 7])
        near = np.argsort(((self._pairs - x) ** 2).sum(axis=1))[:NEIGHBORS]
        difference = self._differences[random.choice(near)] * random.choice([-1.0, 1.0])
        return self._outcome(self._means(x[None, :])[0] + difference / np.sqrt(2.0))

    def overhead_seconds(self, params: Params) -> float:
        """Set-up and evaluation, as of the nearest recorded run."""
        distances = ((self._x - units(self.space, params)) ** 2).sum(axis=1)
        return float(self._overheads[np.argmin(distances)])

    def true_front(self, n: int = 4096) -> Floats:
        """(return, speed) of many configurations, to tell how good a front can be: [n, 2]."""
        params = [self.space.repair(sobol_point(self.space, seed=3, index=i)) for i in range(n)]
        shown = self._means(np.array([units(self.space, p) for p in params]))
        return np.column_stack([shown[:, 0], np.exp(shown[:, 1])])

    def _means(self, x: Floats) -> Floats:
        """[m, d] -> [m, 2 + curve], within what was ever seen."""
        known = np.column_stack([model(x)[0] for model in self._models])
        columns = np.arange(self._shown.shape[1])
        shown = np.array([np.interp(columns, self._columns, row) for row in known])
        return np.asarray(np.clip(shown, *self._bounds))

    def _outcome(self, shown: Floats) -> Outcome:
        low, high = self._bounds
        shown = np.clip(shown, low, high)
        return Outcome(float(shown[0]), float(np.exp(shown[1])), shown[2:])

    def _pairs_of_seeds(self) -> tuple[Floats, Floats]:
        """Where two seeds of one configuration were run, and how what they showed differs."""
        where, differences = [], []
        for i, x in enumerate(self._x):
            for j in range(i + 1, len(self._x)):
                if np.allclose(x, self._x[j]):
                    where.append(x)
                    differences.append(self._shown[i] - self._shown[j])
        return np.array(where), np.array(differences)


class SimulatedExecutor:
    """An Executor whose trials are the surrogate's and whose time is a ManualClock's."""

    def __init__(self, surrogate: Surrogate, clock: ManualClock, *, workers: int) -> None:
        self.total_cores = workers
        self._surrogate = surrogate
        self._clock = clock
        self._due: list[tuple[float, int, int, TrialEvent]] = []
        self._running: dict[int, float] = {}
        self._order = 0

    def fits(self, spec: TrialSpec) -> bool:
        """See Executor."""
        return len(self._running) + spec.parallelism.cores <= self.total_cores

    def lacking(self, spec: TrialSpec) -> Resources | None:
        """See Executor."""
        return lacking(Need(spec.parallelism.cores), [Resources(self.total_cores)])

    def submit(self, run_id: int, spec: TrialSpec, *, untrained: bool = False) -> None:
        """See Executor. An untrained policy was not recorded."""
        del untrained
        surrogate, now = self._surrogate, self._clock.now()
        params = surrogate.space.params_of(spec)
        outcome = surrogate.run(params, seed=spec.seed)
        overhead, budget = surrogate.overhead_seconds(params), surrogate.budget_seconds
        self._running[run_id] = now
        for progress, value in zip(surrogate.progress, outcome.curve, strict=True):
            at = now + overhead / 2.0 + progress * budget
            self._schedule(at, run_id, _measurement(progress, budget, value, outcome))
        result = _result(RunStatus.COMPLETED, outcome, budget)
        self._schedule(now + overhead + budget, run_id, result)

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        """See Executor: the next event, at its time."""
        del timeout_seconds
        while self._due:
            at, _, run_id, event = heapq.heappop(self._due)
            if run_id not in self._running:
                continue
            self._clock.advance(max(0.0, at - self._clock.now()))
            if isinstance(event, RunResult):
                del self._running[run_id]
            return [RunEvent(run_id, event)]
        return []

    def prune(self, run_id: int, reason: str) -> None:
        """See Executor."""
        elapsed = self._clock.now() - self._running[run_id]
        outcome = Outcome(0.0, 0.0, np.empty(0))
        self._schedule(
            self._clock.now(), run_id, _result(RunStatus.PRUNED, outcome, elapsed, reason)
        )

    def notices(self) -> list[Notice]:
        """See Executor: nothing happens to nodes that there are none of."""
        return []

    def stop(self) -> None:
        """See Executor."""
        now, outcome = self._clock.now(), Outcome(0.0, 0.0, np.empty(0))
        for run_id, began_at in self._running.items():
            result = _result(RunStatus.INTERRUPTED, outcome, now - began_at, "asked to stop")
            self._schedule(now, run_id, result)

    def close(self) -> None:
        """See Executor."""

    def _schedule(self, at: float, run_id: int, event: TrialEvent) -> None:
        self._order += 1
        heapq.heappush(self._due, (at, self._order, run_id, event))


def load(path: Path) -> dict[str, Any]:
    """What record_search.py wrote."""
    recorded: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return recorded


def units(space: SearchSpace, params: Params) -> Floats:
    """A configuration as a point: ranges on their own scale in [0, 1], choices one-hot."""
    point: list[float] = []
    for path, parameter in space.parameters.items():
        point += _coordinates(parameter, params.get(path))
    return np.array(point)


def _coordinates(parameter: Parameter, value: ParamValue) -> list[float]:
    match parameter:
        case Pow2Parameter(exponents=(low, high)):
            return [(np.log2(float(value or 1)) - low) / max(1, high - low)]
        case (
            FloatParameter(low=low, high=high, log=log) | IntParameter(low=low, high=high, log=log)
        ):
            x, a, b = float(value or 0), float(low), float(high)
            return [float(np.log(x / a) / np.log(b / a)) if log else (x - a) / (b - a)]
        case _:
            side = CHOICE_DISTANCE / np.sqrt(2.0)
            return [side * (value == choice) for choice in parameter.values or ()]


def _space(trial: dict[str, Any], search: dict[str, Any]) -> SearchSpace:
    data = {"study": "replay", "stop": {"trials": 1}, "trial": trial, "search": search}
    spec = StudySpec.model_validate(data)
    return SearchSpace(spec.trial, spec.search)


def _measurement(progress: float, budget: float, value: float, outcome: Outcome) -> Measurement:
    elapsed = progress * budget
    return Measurement(
        elapsed_seconds=elapsed,
        progress=float(progress),
        env_steps=int(outcome.steps_per_second * elapsed) + 1,
        updates=100,
        episodes=100,
        training_return=float(value),
        episode_length=None,
        steps_per_second=outcome.steps_per_second,
        learning_rate=1e-3,
    )


def _result(
    status: RunStatus, outcome: Outcome, elapsed: float, reason: str | None = None
) -> RunResult:
    completed = status is RunStatus.COMPLETED
    return RunResult(
        status=status,
        reason=reason,
        setup_seconds=0.0,
        elapsed_seconds=elapsed,
        overshoot_seconds=0.0,
        env_steps=int(outcome.steps_per_second * elapsed),
        episodes=100,
        updates=100,
        steps_per_second=outcome.steps_per_second if completed else None,
        final_return=outcome.final_return if completed else None,
        final_return_stochastic=None,
        training_return=float(outcome.curve[-1]) if completed else None,
        seconds_to_threshold=None,
        return_area=None,
        phases=PhaseSeconds(),
        evaluate_seconds=0.0,
        cpu_seconds=None,
        core_seconds=elapsed,
        cpu_utilization=None,
        peak_rss_bytes=None,
        involuntary_switches=None,
    )
