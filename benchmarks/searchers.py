"""The searchers that the benchmark lets compete, each as a study is launched with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gaussian_process import Floats, GaussianProcess
from scipy.stats import norm
from surrogate import units

from sweeper.report.pareto import non_dominated
from sweeper.store.rows import TrialRow
from sweeper.study.agenda import Again, Agenda, Next, Objectives
from sweeper.study.designs import random_point
from sweeper.study.launch import Launcher
from sweeper.study.outcome import Requirements, past_trials
from sweeper.study.parameters import Params
from sweeper.study.rebuild import PastTrial, RebuiltStudy
from sweeper.study.sampler import Suggestion
from sweeper.study.space import SearchSpace
from sweeper.study.spec import LoadedStudy

Chooser = Callable[[SearchSpace, Sequence[PastTrial], int], Params]
"""(space, past trials, seed) -> what to try next."""

N_RANDOM = 10
"""Random trials that the searchers of this file start with, as Optuna's TPE does."""


@dataclass(frozen=True)
class Searcher:
    """A name, and what a study says to have it."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    chooser: Chooser | None = None
    """Instead of the product's own samplers."""

    def launcher(self, *arguments: Any, **options: Any) -> Launcher:
        """As Launcher takes them."""
        if self.chooser is None:
            return Launcher(*arguments, **options)
        return _ChosenLauncher(self.chooser, *arguments, **options)


def searchers() -> list[Searcher]:
    """All that compete; the first is ours."""
    once: dict[str, Any] = {"replicate": {"share": 0.0}}
    return [
        Searcher("sweeper"),
        Searcher("sweeper, pruning", {"pruner": {"kind": "pareto_rungs"}}),
        Searcher("TPE", once, _plain_tpe),
        Searcher("GP", {**once, "sampler": {"kind": "gp", "time_limit": 3600.0}}),
        Searcher("NSGA-II", {**once, "sampler": {"kind": "nsga2"}}),
        Searcher("QMC", {**once, "sampler": {"kind": "qmc"}}),
        Searcher("random", {**once, "sampler": {"kind": "random"}}),
        Searcher("cost-aware GP", once, _cost_aware_gp),
    ]


def shares() -> list[Searcher]:
    """Ours with other shares of re-runs: what replication is worth."""
    return [
        Searcher(f"share {share:g}, {seeds} seeds", {
            "replicate": {"share": share, "max_seeds": seeds}
        })
        for share, seeds in ((0.0, 1), (0.1, 3), (0.25, 3), (0.25, 5), (0.4, 3), (0.5, 5))
    ]  # fmt: skip


class _ChosenAgenda(Agenda):
    def __init__(self, chooser: Chooser, loaded: LoadedStudy) -> None:
        super().__init__(loaded, target_trials=None, at_once=1)
        self._chooser = chooser

    def next(
        self,
        trials: Sequence[TrialRow],
        *,
        n_repeats: int,
        repeated: Mapping[int, Sequence[Objectives]],
        busy: Collection[int],
        requirements: Requirements,
    ) -> Next | None:
        del repeated, busy, requirements
        space, past = self._loaded.space, past_trials(trials, self._spec)
        seed = int(
            np.random.SeedSequence(
                [self._spec.sampler.seed, len(past), n_repeats]
            ).generate_state(1)[0]
        )  # fmt: skip
        finished = sum(trial.state == "complete" for trial in past)
        if finished < N_RANDOM:
            chosen = random_point(space, seed=seed, index=0)
        else:
            chosen = dict(self._chooser(space, past, seed))
        params = space.repair(chosen)
        same = next((t.number for t in past if space.fit(t.params) == params), None)
        if same is not None:
            return Again(same)
        return Suggestion(params, space.resolve(params), "sampler", "random", None)


class _ChosenLauncher(Launcher):
    def __init__(self, chooser: Chooser, loaded: LoadedStudy, *rest: Any, **options: Any) -> None:
        super().__init__(loaded, *rest, **options)
        self._chosen = _ChosenAgenda(chooser, loaded)

    def make_agenda(self) -> Agenda:
        return self._chosen


def _plain_tpe(space: SearchSpace, past: Sequence[PastTrial], seed: int) -> Params:
    """Optuna's default for several objectives, left alone."""
    return RebuiltStudy(space, ["maximize", "maximize"]).suggest("tpe", past, seed=seed)


CANDIDATES, STEP = 256, 0.2


def _cost_aware_gp(space: SearchSpace, past: Sequence[PastTrial], seed: int) -> Params:
    """In the manner of CARBS (Fetterman et al. 2023) and PufferLib's Protein: candidates around
    the front, a Gaussian process for the return and one for the cost (here the time a step
    takes), and the candidate that is expected to improve most on what the front reaches at
    its cost. Pending trials are taken at the model's word."""
    random = np.random.default_rng(seed)
    known = [(trial, score) for trial in past if (score := trial.score) is not None]
    x = np.array([units(space, trial.params) for trial, _ in known])
    returns = np.array([score[0] for _, score in known])
    costs = -np.log([score[1] for _, score in known])
    model_return, model_cost = (GaussianProcess(x, y, steps=20) for y in (returns, costs))
    best = np.flatnonzero(non_dominated(np.column_stack([returns, -costs]), [True, True]))
    origins = [known[i][0].params for i in random.choice(best, CANDIDATES)]
    candidates = [_moved(space, params, random) for params in origins]
    points = np.array([units(space, params) for params in candidates])
    pending = [units(space, t.params) for t in past if t.state == "running"]
    if pending:  # crowded places are not asked for again
        near = ((points[:, None] - np.array(pending)[None]) ** 2).sum(axis=2).min(axis=1)
        points, candidates = points[near > 1e-3], [
            c for c, d in zip(candidates, near, strict=True) if d > 1e-3
        ]  # fmt: skip
        if not candidates:
            return random_point(space, seed=seed, index=1)
    mean, deviation = model_return(points)
    cost, _ = model_cost(points)
    reached = _best_at(cost, returns[best], costs[best])
    z = (mean - reached) / deviation
    improvement = deviation * (z * norm.cdf(z) + norm.pdf(z))
    return candidates[int(np.argmax(improvement))]


def _best_at(cost: Floats, returns: Floats, costs: Floats) -> Floats:
    """The best return of the front at no more than each cost; below its cheapest, the worst."""
    affordable = costs[None, :] <= cost[:, None]
    return np.asarray(np.where(affordable, returns[None, :], returns.min()).max(axis=1))


def _moved(space: SearchSpace, params: Params, random: np.random.Generator) -> Params:
    """A configuration nearby: ranges move by a normal step, choices change now and then."""
    moved = dict(space.repair(params))
    for path, parameter in space.parameters.items():
        if path not in moved:
            continue
        values = parameter.values
        if values is not None and parameter.kind in ("choice", "bool"):
            if random.random() < STEP:
                moved[path] = values[random.integers(len(values))]
            continue
        here = units(space, moved)[_index(space, path)]
        moved[path] = parameter.at(float(np.clip(here + STEP * random.standard_normal(), 0, 0.999)))
    return space.repair(moved)


def _index(space: SearchSpace, path: str) -> int:
    """Where a range's coordinate stands in `units`."""
    index = 0
    for other, parameter in space.parameters.items():
        if other == path:
            return index
        is_choice = parameter.kind in ("choice", "bool", "constant")
        index += len(parameter.values or ()) if is_choice else 1
    raise KeyError(path)
