"""Suggestions: who makes them, from what, and that the past can look like anything."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from sweeper.core.clock import ManualClock
from sweeper.study.parameters import Params
from sweeper.study.rebuild import PastTrial
from sweeper.study.sampler import Sampler
from sweeper.study.space import SearchSpace
from sweeper.study.spec import Direction, Objective, SamplerSpec, StudySpec

OBJECTIVES: dict[Objective, Direction] = {
    "final_return": "maximize",
    "steps_per_second": "maximize",
}
SEARCH = {
    "parallelism.n_envs": {"kind": "pow2", "low": 1, "high": 32},
    "algorithm.n_steps": {"kind": "pow2", "low": 16, "high": 128},
    "algorithm.n_minibatches": {"kind": "pow2", "low": 1, "high": 32},
    "algorithm.gamma": {"kind": "float", "low": 0.9, "high": 0.99, "step": 0.03},
    "algorithm.n_epochs": {"kind": "int", "low": 1, "high": 20, "log": True},
    "algorithm.network.hidden": {"kind": "choice", "choices": [[32], [64, 64]]},
    "algorithm.normalize_advantage": {"kind": "bool"},
    "algorithm.optimizer.kind": {"kind": "choice", "choices": ["adam", "sgd"]},
    "algorithm.optimizer.learning_rate": {
        "kind": "float",
        "low": 1e-4,
        "high": 1e-2,
        "log": True,
    },
    "algorithm.optimizer.momentum": {
        "kind": "float",
        "low": 0.0,
        "high": 0.9,
        "when": {"algorithm.optimizer.kind": "sgd"},
    },
    "algorithm.optimizer.beta1": {
        "kind": "constant",
        "value": 0.8,
        "when": {"algorithm.optimizer.kind": "adam"},
    },
}
DISCRETE = {path: SEARCH[path] for path in ("parallelism.n_envs", "algorithm.n_steps")}
LEARNING = ["tpe", pytest.param("gp", marks=pytest.mark.slow), "nsga2"]


def space(search: dict[str, object] = SEARCH) -> SearchSpace:
    spec = StudySpec.model_validate(
        {
            "study": "s",
            "stop": {"trials": 9},
            "search": search,
            "trial": {
                "env": {"id": "CartPole-v1"},
                "algorithm": {
                    "kind": "ppo",
                    "n_steps": 32,
                    "n_minibatches": 1,
                    "optimizer": {"kind": "adam", "learning_rate": 1e-3},
                },
                "budget": {"seconds": 10},
            },
        }
    )
    return SearchSpace(spec.trial, spec.search)


def sampler(kind: str, *, search: dict[str, object] = SEARCH, **options: object) -> Sampler:
    spec = SamplerSpec.model_validate({"kind": kind, **options})
    return Sampler(space(search), OBJECTIVES, spec, n_startup=4)


def speed_against_return(params: Params) -> tuple[float, float]:
    """A made-up front: more environments are faster, a middling learning rate is better."""
    n_envs = float(params["parallelism.n_envs"] or 0)
    rate = float(params.get("algorithm.optimizer.learning_rate") or 1e-3)
    return 500.0 - 100.0 * abs(math.log10(rate) + 3.0) - n_envs, 1000.0 * n_envs


def play(
    ask: Sampler,
    n_trials: int,
    *,
    score: Callable[[Params], tuple[float, float]] = speed_against_return,
    past: tuple[PastTrial, ...] = (),
) -> list[PastTrial]:
    trials = list(past)
    for number in range(len(trials) + 1, len(trials) + n_trials + 1):
        params = ask.ask(trials).params
        trials.append(PastTrial(number, params, "complete", score(params)))
    return trials


@pytest.mark.parametrize("kind", ["auto", *LEARNING, "qmc", "random"])
def test_every_kind_suggests_trials_that_can_run(kind: str) -> None:
    ask = sampler(kind)
    trials = play(ask, 8)
    suggestion = ask.ask(trials)
    assert suggestion.trial == space().resolve(suggestion.params)
    assert suggestion.sampler == ("tpe" if kind == "auto" else kind)
    assert suggestion.origin == "sampler"


@pytest.mark.parametrize("kind", [*LEARNING, "qmc", "random"])
def test_the_same_seed_and_past_give_the_same_suggestion(kind: str) -> None:
    trials = play(sampler(kind, seed=7), 9)
    assert sampler(kind, seed=7).ask(trials) == sampler(kind, seed=7).ask(trials)


@pytest.mark.parametrize("kind", ["tpe", "nsga2", "qmc", "random"])
def test_another_seed_gives_another_suggestion(kind: str) -> None:
    trials = play(sampler(kind), 9)
    assert sampler(kind, seed=1).ask(trials) != sampler(kind, seed=2).ask(trials)


def test_a_learning_sampler_starts_with_distinct_quasi_random_trials() -> None:
    ask = sampler("tpe")
    trials = play(ask, 3)
    suggestion = ask.ask(trials)
    assert (suggestion.origin, suggestion.sampler) == ("startup", "qmc")
    assert suggestion.duplicate_of is None
    assert ask.ask(play(ask, 4)).origin == "sampler"


def test_nothing_is_learnt_before_two_trials_have_ended() -> None:
    ask = sampler("tpe")
    trials = [PastTrial(t.number, t.params, "running") for t in play(ask, 6)]
    assert ask.ask(trials).origin == "startup"


@pytest.mark.parametrize("kind", LEARNING)
def test_running_failed_and_infeasible_trials_are_part_of_the_past(kind: str) -> None:
    ask = sampler(kind)
    trials = play(ask, 8)
    trials[1] = PastTrial(2, trials[1].params, "running")
    trials[3] = PastTrial(4, trials[3].params, "failed")
    trials[4] = PastTrial(5, trials[4].params, "complete", (math.nan, 1.0))
    trials[5] = PastTrial(6, trials[5].params, "complete", (1.0, 2.0), {"final_return.min": 3.0})
    suggestion = ask.ask(trials)
    assert suggestion.trial == space().resolve(suggestion.params)


def test_running_trials_change_what_is_suggested_next() -> None:
    ask = sampler("tpe")
    trials = play(ask, 12)
    pending = [PastTrial(t.number, t.params, "running") for t in trials[6:]]
    assert ask.ask(trials).params != ask.ask([*trials[:6], *pending]).params


@pytest.mark.parametrize("kind", LEARNING)
def test_a_past_in_which_everything_failed_still_gives_suggestions(kind: str) -> None:
    ask = sampler(kind)
    trials = [PastTrial(t.number, t.params, "failed") for t in play(ask, 6)]
    assert ask.ask(trials).origin == "sampler"


def test_the_sampler_learns_to_avoid_what_fails() -> None:
    """Everything but one environment fails, as if the machine could not hold more."""
    ask = sampler("tpe", search=DISCRETE)
    trials: list[PastTrial] = []
    for number in range(1, 61):
        params = ask.ask(trials).params
        if params["parallelism.n_envs"] == 1:
            trials.append(PastTrial(number, params, "complete", speed_against_return(params)))
        else:
            trials.append(PastTrial(number, params, "failed"))
    late = [trial.params["parallelism.n_envs"] for trial in trials[30:]]
    assert late.count(1) > 2 * len(late) / 6  # one value in six, twice as often as by chance


@pytest.mark.parametrize("kind", LEARNING)
def test_a_changed_space_keeps_what_still_fits_of_the_past(kind: str) -> None:
    trials = play(sampler(kind), 8)
    changed = {
        **SEARCH,
        "parallelism.n_envs": {"kind": "pow2", "low": 4, "high": 8},
        "algorithm.network.hidden": {"kind": "choice", "choices": [[64, 64], [128], "x"][:2]},
        "algorithm.optimizer.kind": {"kind": "choice", "choices": ["sgd", "rmsprop", "adam"]},
        "algorithm.clip_range": {"kind": "float", "low": 0.1, "high": 0.3},
    }
    del changed["algorithm.n_epochs"]
    suggestion = sampler(kind, search=changed).ask(trials)
    assert suggestion.params.keys() <= changed.keys()
    assert suggestion.params["parallelism.n_envs"] in (4, 8)


def test_a_past_of_values_no_space_ever_had_is_ignored() -> None:
    strange = {"parallelism.n_envs": "many", "algorithm.gamma": None, "no.such": 3}
    trials = [PastTrial(n, strange, "complete", (1.0, 2.0)) for n in range(1, 9)]
    assert sampler("tpe").ask(trials).origin == "sampler"


def test_numbers_that_a_database_turned_into_floats_are_the_same_trial() -> None:
    ask = sampler("grid", search=DISCRETE)
    first = ask.ask([])
    stored = {path: float(value) for path, value in first.params.items() if value is not None}
    assert ask.ask([PastTrial(1, stored, "running")]).params != first.params


def test_a_grid_visits_every_valid_combination_and_then_begins_again() -> None:
    ask = sampler("grid", search=DISCRETE)
    trials = play(ask, 24)
    assert len({tuple(trial.params.items()) for trial in trials}) == 24
    again = ask.ask(trials)
    assert again.duplicate_of == 1
    assert again.params == trials[0].params


def test_a_duplicate_names_the_trial_that_it_repeats() -> None:
    only = {"parallelism.n_envs": {"kind": "choice", "choices": [8]}}
    ask = sampler("random", search=only)
    assert ask.ask([]).duplicate_of is None
    assert ask.ask([PastTrial(5, {"parallelism.n_envs": 8}, "running")]).duplicate_of == 5


def test_a_sampler_that_exceeds_its_time_limit_hands_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class SlowClock(ManualClock):
        def now(self) -> float:
            self.advance(11.0)
            return super().now()

    ask = Sampler(
        space(),
        OBJECTIVES,
        SamplerSpec(kind="tpe", time_limit=10.0),
        n_startup=4,
        clock=SlowClock(),
    )
    trials = play(sampler("tpe"), 6)
    assert ask.ask(trials).sampler == "tpe"
    assert ask.ask(trials).sampler == "qmc"
    assert "tpe took 11.0 s, more than its time limit of 10 s: qmc takes over" in caplog.text


@pytest.mark.slow
def test_tpe_finds_more_of_the_front_than_random_search() -> None:
    """Hypervolume over (0, 0) of the made-up front after 60 trials, mean of three seeds."""

    def hypervolume(kind: str) -> float:
        total = 0.0
        for seed in range(3):
            values = [trial.values for trial in play(sampler(kind, seed=seed), 60)]
            best, covered = 0.0, 0.0
            for speed, reward in sorted(((v[1], v[0]) for v in values if v), reverse=True):
                if reward > best:
                    covered += speed * (reward - best)
                    best = reward
            total += covered
        return total

    assert hypervolume("tpe") > hypervolume("random")


@pytest.mark.parametrize("kind", ["tpe", "nsga2"])
def test_a_sampler_that_saw_the_past_grow_answers_as_one_that_is_told_all_at_once(
    kind: str,
) -> None:
    """Trials are translated once; whatever changes about one must be told anew."""
    old = sampler(kind)
    trials = play(sampler("qmc"), 12)
    states = [
        [PastTrial(t.number, t.params, "running") for t in trials],
        [*trials[:6], *(PastTrial(t.number, t.params, "running") for t in trials[6:])],
        trials,
        [PastTrial(1, trials[0].params, "complete", (9.0, 9.0)), *trials[1:]],
        [PastTrial(1, trials[0].params, "failed"), *trials[1:]],
        [PastTrial(1, trials[0].params, "complete", (1.0, 1.0), {"x": 2.0}), *trials[1:]],
        [PastTrial(1, trials[0].params, "complete", (1.0, -9.0)), *trials[1:]],
    ]
    for past in states:
        assert old.ask(past) == sampler(kind).ask(past)


def test_how_far_a_constraint_is_violated_matters() -> None:
    """All violate; the fewer environments, the less. The sampler goes where it is least."""
    ask = sampler("tpe", search=DISCRETE)
    trials: list[PastTrial] = []
    for number in range(1, 61):
        params = ask.ask(trials).params
        n_envs = float(params["parallelism.n_envs"] or 0)
        trials.append(PastTrial(number, params, "complete", (1.0, 1.0), {"memory.max": n_envs}))
    late = [trial.params["parallelism.n_envs"] for trial in trials[30:]]
    assert sum(n_envs in (1, 2) for n_envs in late) > len(late) * 0.6  # a third by chance


def test_what_another_study_found_is_learnt_from_and_never_repeated() -> None:
    former = [
        PastTrial(-i, t.params, t.state, t.values) for i, t in enumerate(play(sampler("tpe"), 8))
    ]
    ask = Sampler(space(), OBJECTIVES, SamplerSpec(kind="tpe"), n_startup=4, former=former)
    assert ask.ask([]).origin == "sampler"
    grid = Sampler(space(DISCRETE), OBJECTIVES, SamplerSpec(kind="grid"), former=former)
    assert grid.ask([]).duplicate_of is None
