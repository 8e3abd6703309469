"""The search space: what it accepts, how it counts, narrows and repairs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from sweeper.core.errors import SpecError
from sweeper.study.space import SearchSpace
from sweeper.study.spec import StudySpec
from sweeper.trial.spec import TrialSpec

TRIAL: dict[str, Any] = {
    "env": {"id": "CartPole-v1", "kwargs": {"gravity": 9.8}},
    "algorithm": {
        "kind": "ppo",
        "n_steps": 32,
        "n_minibatches": 1,
        "optimizer": {"kind": "adam", "learning_rate": 1e-3, "beta1": 0.8},
    },
    "parallelism": {"n_envs": 4},
    "budget": {"seconds": 10},
}
KIND = "algorithm.optimizer.kind"


def space(
    search: Mapping[str, Any], *, trial: Mapping[str, Any] = TRIAL, cores: int | None = None
) -> SearchSpace:
    data = {"study": "s", "stop": {"trials": 1}, "trial": trial, "search": search}
    spec = StudySpec.model_validate(data)
    return SearchSpace(spec.trial, spec.search, usable_cores=cores)


def refusal(search: Mapping[str, Any], **options: Any) -> tuple[str, str]:
    """(path, message) of what is wrong with a search."""
    with pytest.raises(PydanticCustomError) as caught:
        space(search, **options)
    context = caught.value.context or {}
    return str(context["path"]), str(context["message"])


def choice(*choices: Any, **other: Any) -> dict[str, Any]:
    return {"kind": "choice", "choices": list(choices), **other}


def pow2(low: int, high: int, **other: Any) -> dict[str, Any]:
    return {"kind": "pow2", "low": low, "high": high, **other}


# -- Parameters of each kind --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ({"kind": "pow2", "low": 3, "high": 40}, (4, 8, 16, 32)),
        ({"kind": "int", "low": 1, "high": 9, "step": 3}, (1, 4, 7)),
        ({"kind": "float", "low": 0.0, "high": 0.3, "step": 0.1}, (0.0, 0.1, 0.2, 0.1 * 3)),
        ({"kind": "float", "low": 0.0, "high": 1.0}, None),
        ({"kind": "bool"}, (False, True)),
        ({"kind": "constant", "value": [1, 2]}, ("[1, 2]",)),
        (choice([64, 64], None, "x", 1), ("[64, 64]", None, "x", 1)),
    ],
)
def test_the_values_of_each_kind(parameter: dict[str, Any], values: tuple[Any, ...] | None) -> None:
    search = {"env.kwargs.gravity": parameter}
    assert space(search).parameters["env.kwargs.gravity"].values == values


@pytest.mark.parametrize(
    ("parameter", "key", "message"),
    [
        ({"kind": "float", "low": 2, "high": 1}, "low", "must be at most high = 1, got 2"),
        ({"kind": "float", "low": 0, "high": 1, "log": True}, "low", "must be more than 0 on"),
        ({"kind": "float", "low": 1, "high": 2, "log": True, "step": 1}, "step", "cannot be comb"),
        ({"kind": "int", "low": 0, "high": 9, "log": True}, "low", "must be more than 0 on"),
        ({"kind": "int", "low": 0, "high": 10**9}, "high", "makes more than 10000 values"),
        ({"kind": "pow2", "low": 5, "high": 7}, "high", "leaves no power of two between 5 and 7"),
        (choice(1, 2, 1), "choices.2", "repeats an earlier choice, 1"),
        (choice({"a": 1}), "choices.0", "must be a single value or a list, got a mapping"),
    ],
)
def test_a_parameter_that_makes_no_sense(parameter: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        space({"env.kwargs.gravity": parameter})
    [error] = caught.value.errors()
    path = [str(part) for part in error["loc"][3:]] + [error["ctx"]["path"]]
    assert ".".join(path) == key
    assert message in error["ctx"]["message"]


@settings(deadline=None)
@given(unit=st.floats(0, 1, exclude_max=True))
def test_every_point_of_the_unit_interval_is_a_value(unit: float) -> None:
    for parameter in space(EVERYTHING).parameters.values():
        assert parameter.fit(parameter.at(unit)) is not None


# -- Paths and values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("n_envs", "is not a key of the trial; did you mean parallelism.n_envs?"),
        (
            "algorithm.optimiser.kind",
            "is not a key of the trial; did you mean algorithm.optimizer.k",
        ),
        ("budget.seconds", "is the same for every trial of a study and cannot be searched"),
        ("seed", "is the same for every trial of a study and cannot be searched"),
    ],
)
def test_a_path_that_cannot_be_searched(path: str, message: str) -> None:
    where, said = refusal({path: {"kind": "bool"}})
    assert where == f"search.{path}"
    assert said.startswith(message)


@pytest.mark.parametrize(
    ("path", "parameter", "key", "message"),
    [
        ("parallelism.n_envs", choice(4, 0), "choices.1", "must be at least 1, got 0"),
        ("parallelism.n_envs", choice("x"), "choices.0", "must be a whole number, got 'x'"),
        (
            "parallelism.n_envs",
            {"kind": "float", "low": 1, "high": 2},
            "low",
            "must be a whole number, got 1.0",
        ),
        ("algorithm.gamma", {"kind": "float", "low": 0.5, "high": 2}, "high", "must be at most 1"),
        ("algorithm.network.hidden", choice([64], [0.5]), "choices.1.0", "must be a whole number"),
        ("algorithm.optimizer", choice(3), "choices.0", "must be a mapping of keys, got 3"),
        (KIND, choice("adam", "adma"), "choices.1", "must be one of adam, adamw, rmsprop, sgd"),
        (
            "algorithm.normalize_advantage",
            {"kind": "constant", "value": 3},
            "value",
            "must be true",
        ),
    ],
)
def test_every_bound_and_choice_must_be_valid(
    path: str, parameter: dict[str, Any], key: str, message: str
) -> None:
    where, said = refusal({path: parameter})
    assert where.startswith(f"search.{path}.{key}")
    assert message in said


def test_keyword_arguments_of_the_environment_can_be_searched() -> None:
    spec = space({"env.kwargs.gravity": choice(1.6, 9.8)}).resolve({"env.kwargs.gravity": 1.6})
    assert spec.env.kwargs == {"gravity": 1.6}


# -- Conditions ---------------------------------------------------------------------------------

MOMENTUM = {"kind": "float", "low": 0.0, "high": 0.9}


def test_a_key_of_one_kind_needs_a_condition() -> None:
    search = {KIND: choice("adam", "sgd"), "algorithm.optimizer.momentum": MOMENTUM}
    assert refusal(search) == (
        "search.algorithm.optimizer.momentum",
        "is not a key under {algorithm.optimizer.kind: adam}; say `when:` it is one",
    )
    space(search | {"algorithm.optimizer.momentum": MOMENTUM | {"when": {KIND: "sgd"}}})


def test_a_key_of_a_kind_that_is_never_chosen() -> None:
    where, said = refusal({"algorithm.optimizer.momentum": MOMENTUM})
    assert where == "search.algorithm.optimizer.momentum"
    assert said == "is not a key under the kinds that `trial` chooses"


@pytest.mark.parametrize(
    ("when", "where", "message"),
    [
        ({"algorithm.optimizer.kin": "sgd"}, "algorithm.optimizer.kin", f"did you mean {KIND}?"),
        ({KIND: "rmsprop"}, KIND, "must be a value that the parameter can take, or a list"),
        ({KIND: []}, KIND, "must be a value that the parameter can take, or a list"),
        ({"algorithm.gamma": 0.9}, "algorithm.gamma", "is continuous"),
    ],
)
def test_a_condition_that_refers_to_nothing(when: dict[str, Any], where: str, message: str) -> None:
    search = {
        KIND: choice("adam", "sgd"),
        "algorithm.gamma": {"kind": "float", "low": 0.9, "high": 1},
        "algorithm.optimizer.momentum": MOMENTUM | {"when": when},
    }
    path, said = refusal(search)
    assert path == f"search.algorithm.optimizer.momentum.when.{where}"
    assert message in said


def test_conditions_in_a_circle() -> None:
    n_envs, n_steps = "parallelism.n_envs", "algorithm.n_steps"
    search = {
        n_envs: pow2(1, 4, when={n_steps: 16}),
        n_steps: pow2(16, 32, when={n_envs: 1}),
    }
    assert refusal(search) == (
        f"search.{n_envs}.when",
        f"goes round in a circle: {n_envs}, {n_steps}",
    )


# -- Resolving ----------------------------------------------------------------------------------


def test_what_is_not_given_keeps_the_value_of_the_base() -> None:
    searched = space({"parallelism.n_envs": pow2(1, 8)})
    assert searched.resolve({}) == searched.trial
    assert searched.resolve({"parallelism.n_envs": 8}).parallelism.n_envs == 8


def test_a_changed_kind_drops_the_keys_it_does_not_have_and_keeps_the_others() -> None:
    optimizer = space({KIND: choice("adam", "sgd")}).resolve({KIND: "sgd"}).algorithm.optimizer
    assert optimizer.kind == "sgd"
    assert optimizer.learning_rate == 1e-3


def test_a_kind_within_a_default_starts_from_the_default() -> None:
    trial = {**TRIAL, "algorithm": {"kind": "a2c", "n_steps": 8}}
    optimizer = space({KIND: choice("adam")}, trial=trial).resolve({KIND: "adam"})
    assert optimizer.algorithm.optimizer.learning_rate == 7e-4  # A2C's own default


def test_a_choice_that_is_a_list_is_named_by_its_json() -> None:
    path = "algorithm.network.hidden"
    searched = space({path: choice([64, 64], [256])})
    assert searched.fit({path: [256]}) == {path: "[256]"}
    assert searched.resolve({path: "[256]"}).algorithm.network.hidden == (256,)


def test_params_that_cannot_run_are_refused_in_one_line() -> None:
    searched = space({"algorithm.n_minibatches": choice(1, 3)})
    with pytest.raises(SpecError, match=r"^algorithm\.n_minibatches must divide the batch"):
        searched.resolve({"algorithm.n_minibatches": 3})


# -- Counting and narrowing ---------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "parallelism.n_envs": {"kind": "int", "low": 1, "high": 6},
    "parallelism.envs_per_worker": choice("auto", 1, 2, 5),
    "parallelism.overlap": {"kind": "bool"},
    "algorithm.kind": choice("ppo", "a2c", "acktr"),
    "algorithm.n_steps": choice(1, 2, 6, 16),
    "algorithm.n_minibatches": {
        "kind": "int",
        "low": 1,
        "high": 6,
        "when": {"algorithm.kind": "ppo"},
    },
    "algorithm.normalize_advantage": {"kind": "bool"},
    KIND: choice("adam", "adamw", "sgd", "kfac"),
    "algorithm.optimizer.momentum": choice(0.0, 0.5, 0.9, when={KIND: ["sgd", "kfac"]}),
    "algorithm.optimizer.weight_decay": {
        "kind": "float",
        "low": 0.0,
        "high": 0.1,
        "step": 0.1,
        "when": {KIND: "adamw"},
    },
    "algorithm.optimizer.schedule.kind": choice("constant", "linear"),
    "algorithm.gamma": {"kind": "float", "low": 0.9, "high": 0.99},
}
parts = st.sets(st.sampled_from(list(EVERYTHING)), min_size=1, max_size=6).map(
    lambda paths: {
        path: parameter
        for path, parameter in EVERYTHING.items()
        if path in paths
        or any(path in EVERYTHING[other].get("when", {}) for other in paths)  # its condition
    }
)


def brute_force(searched: SearchSpace) -> tuple[int, int]:
    """(combinations, valid ones) by trying every value of every discrete parameter."""
    discrete = {p: v.values for p, v in searched.parameters.items() if v.values is not None}
    seen: dict[tuple[Any, ...], bool] = {}
    for values in product(*discrete.values()):
        params = searched.fit(dict(zip(discrete, values, strict=True)))
        key = tuple(sorted((path, repr(value)) for path, value in params.items()))
        if key in seen:
            continue
        try:
            searched.resolve(params)
        except SpecError:
            seen[key] = False
        else:
            seen[key] = True
    return len(seen), sum(seen.values())


@settings(max_examples=25, deadline=None)
@given(search=parts)
def test_combinations_are_counted_as_by_brute_force(search: dict[str, Any]) -> None:
    report = (searched := space(search)).report()
    assume((report.combinations or 0) <= 3000)
    combinations, valid = brute_force(searched)
    assert report.valid == valid
    if not report.narrowed:  # `combinations` counts what was written; the rest is gone by now
        assert report.combinations == combinations


def test_a_count_worked_by_hand() -> None:
    """n_envs x n_steps in {2, 4, 8, 16}; minibatches 1, 2, 4, 8 that leave at least 2 each:
    batches 2, 4, 4, 8 allow 1, 2, 2, 3 divisors (n_envs 1, 2 by n_steps 2, 4). Of the
    optimizers, sgd comes with three momenta: 2 + 3 = 5 ways."""
    report = space(
        {
            "parallelism.n_envs": pow2(1, 2),
            "algorithm.n_steps": pow2(2, 4),
            "algorithm.n_minibatches": pow2(1, 8),
            KIND: choice("adam", "rmsprop", "sgd"),
            "algorithm.optimizer.momentum": choice(0.0, 0.5, 0.9, when={KIND: "sgd"}),
            "algorithm.gamma": {"kind": "float", "low": 0.9, "high": 0.99},
        }
    ).report()
    assert report.combinations == 2 * 2 * 4 * 5
    assert report.valid == (1 + 2 + 2 + 3) * 5
    assert report.continuous == ("algorithm.gamma",)


def test_an_algorithm_whose_optimizer_is_not_searched_is_narrowed_away() -> None:
    searched = space({"algorithm.kind": choice("ppo", "a2c", "acktr")})  # the trial has adam
    assert searched.parameters["algorithm.kind"].values == ("ppo", "a2c")


def test_an_optimizer_gives_way_to_the_algorithm_that_needs_another() -> None:
    searched = space({"algorithm.kind": choice("ppo", "acktr"), KIND: choice("adam", "kfac")})
    assert (searched.report().combinations, searched.report().valid) == (4, 3)
    repaired = searched.repair({"algorithm.kind": "acktr", KIND: "adam"})
    assert repaired == {"algorithm.kind": "acktr", KIND: "kfac"}
    assert searched.resolve(repaired).algorithm.kind == "acktr"


def test_values_that_can_never_run_are_narrowed_away_and_reported() -> None:
    searched = space({"algorithm.n_minibatches": pow2(1, 256), "algorithm.n_steps": pow2(8, 16)})
    assert searched.parameters["algorithm.n_minibatches"].values == (1, 2, 4, 8, 16, 32)
    [narrowing] = searched.report().narrowed
    assert narrowing.path == "algorithm.n_minibatches"
    assert narrowing.values == (64, 128, 256)


def test_choices_that_can_never_run_are_narrowed_away() -> None:
    searched = space({"algorithm.n_minibatches": choice(3, 4, 7)})
    assert searched.parameters["algorithm.n_minibatches"].values == (4,)
    one_env = {**TRIAL, "parallelism": {"n_envs": 1}}
    searched = space({"parallelism.overlap": {"kind": "bool"}}, trial=one_env)
    assert searched.parameters["parallelism.overlap"].values == (False,)


def test_cores_that_no_node_has_are_narrowed_away() -> None:
    searched = space({"parallelism.cores": choice(1, 2, 64)}, cores=2)
    assert searched.parameters["parallelism.cores"].values == (1, 2)
    assert "no node has more than 2 usable cores" in searched.report().narrowed[0].reason
    assert refusal({"parallelism.cores": choice(8, 64)}, cores=2) == (
        "search.parallelism.cores",
        "leaves nothing: no node has more than 2 usable cores",
    )


def test_a_space_in_which_nothing_can_run_names_the_clash() -> None:
    path, said = refusal({"algorithm.n_minibatches": choice(3, 7)})
    assert path == "search.algorithm.n_minibatches"
    assert said == (
        ": no combination in the search can run; for one, algorithm.n_minibatches must divide the "
        "batch, n_envs x n_steps = 4 x 32 = 128, got 3"
    )


def test_a_space_too_large_to_count_is_still_searched() -> None:
    wide = {"kind": "int", "low": 1, "high": 5000}
    searched = space(
        {
            "algorithm.n_steps": wide,
            "algorithm.n_minibatches": wide,
            "parallelism.n_envs": pow2(1, 8),
        }
    )
    assert searched.report().valid is None
    searched.resolve(searched.repair({"algorithm.n_steps": 4999, "algorithm.n_minibatches": 4998}))


def test_the_grid_holds_every_valid_combination_once() -> None:
    searched = space({path: EVERYTHING[path] for path in ("parallelism.n_envs", KIND)})
    assert len({str(params) for params in searched.configurations()}) == 24


# -- Repair -------------------------------------------------------------------------------------


@st.composite
def suggestions(draw: st.DrawFn) -> tuple[SearchSpace, dict[str, Any]]:
    searched = space(draw(parts))
    params = {
        path: draw(st.floats(0, 1, exclude_max=True).map(parameter.at))
        for path, parameter in searched.parameters.items()
    }
    return searched, params


@settings(max_examples=150, deadline=None)
@given(suggestion=suggestions())
def test_what_is_repaired_can_run_and_stays_in_the_space(
    suggestion: tuple[SearchSpace, dict[str, Any]],
) -> None:
    searched, params = suggestion
    repaired = searched.repair(params)
    assert isinstance(searched.resolve(repaired), TrialSpec)
    assert searched.fit(repaired) == repaired
    assert searched.repair(repaired) == repaired


BATCH = {
    "parallelism.n_envs": pow2(1, 8),
    "algorithm.n_steps": pow2(4, 16),
    "algorithm.n_minibatches": pow2(1, 64),
    "parallelism.envs_per_worker": choice("auto", 1, 4),
    "parallelism.overlap": {"kind": "bool"},
}


@pytest.mark.parametrize(
    ("suggested", "repaired"),
    [
        # n_minibatches gives way before n_steps and n_envs do, to the nearest that divides
        ((4, 4, 64, "auto", False), (4, 4, 8, "auto", False)),
        ((1, 8, 8, "auto", False), (1, 8, 4, "auto", False)),
        # envs_per_worker and overlap give way to n_envs
        ((2, 8, 1, 4, False), (2, 8, 1, 1, False)),
        ((1, 8, 1, "auto", True), (1, 8, 1, "auto", False)),
        # all at once
        ((1, 4, 64, 4, True), (1, 4, 2, 1, False)),
    ],
)
def test_what_clashes_gives_way_in_a_fixed_order(
    suggested: tuple[Any, ...], repaired: tuple[Any, ...]
) -> None:
    params = dict(zip(BATCH, suggested, strict=True))
    assert space(BATCH).repair(params) == dict(zip(BATCH, repaired, strict=True))


def test_steps_give_way_when_minibatches_are_fixed_and_environments_last() -> None:
    trial = {**TRIAL, "algorithm": {"kind": "ppo", "n_steps": 32, "n_minibatches": 32}}
    search = {"parallelism.n_envs": pow2(1, 8), "algorithm.n_steps": pow2(4, 16)}
    assert space(search, trial=trial).repair({"parallelism.n_envs": 4, "algorithm.n_steps": 8}) == {
        "parallelism.n_envs": 4,
        "algorithm.n_steps": 16,
    }
    assert space(search, trial=trial).repair({"parallelism.n_envs": 1, "algorithm.n_steps": 8}) == {
        "parallelism.n_envs": 4,
        "algorithm.n_steps": 16,
    }


def test_missing_values_come_from_the_base() -> None:
    assert space({"parallelism.n_envs": pow2(1, 8)}).repair({}) == {"parallelism.n_envs": 4}


# -- Learners that are not ours -------------------------------------------------------------------

N_ENVS = {"parallelism.n_envs": pow2(1, 8)}
GUESSING = {"kind": "agents:Guessing", "rate": 0.5}


def test_parameters_of_a_users_learner_are_searched_by_their_paths():
    trial = {**TRIAL, "algorithm": GUESSING}
    search = {"algorithm.rate": {"kind": "float", "low": 0.1, "high": 1.0}, **N_ENVS}
    searched = space({**search, "algorithm.deep.down": choice(1, 2)}, trial=trial)
    params = {"algorithm.rate": 0.7, "algorithm.deep.down": 2, "parallelism.n_envs": 8}
    resolved = searched.resolve(params)
    assert resolved.algorithm.parameters == {"rate": 0.7, "deep": {"down": 2}}
    assert searched.params_of(resolved) == params


def test_a_users_learner_shares_no_key_with_other_algorithms():
    search = {
        "algorithm.kind": choice("ppo", "agents:Guessing", "sb3"),
        "algorithm.rate": choice(1, 2, when={"algorithm.kind": "agents:Guessing"}),
        "algorithm.n_minibatches": pow2(1, 4, when={"algorithm.kind": "ppo"}),
        "algorithm.batch_size": pow2(16, 64, when={"algorithm.kind": "sb3"}),
    }
    searched = space(search)
    guessing = searched.resolve({"algorithm.kind": "agents:Guessing", "algorithm.rate": 2})
    assert guessing.algorithm.parameters == {"rate": 2}
    sb3 = searched.resolve({"algorithm.kind": "sb3", "algorithm.batch_size": 32})
    assert (sb3.algorithm.n_steps, sb3.algorithm.batch_size) == (2048, 32)
    ppo = searched.resolve({"algorithm.kind": "ppo", "algorithm.n_minibatches": 4})
    assert ppo.algorithm.n_steps == 32, "what the trial gives is its own kind's"
    assert searched.report().valid == 3 + 2 + 3


def test_a_users_parameter_is_unknown_to_ours():
    search = {"algorithm.kind": choice("ppo", "agents:Guessing"), "algorithm.rate": choice(1, 2)}
    path, message = refusal(search)
    assert (path, message) == (
        "search.algorithm.rate",
        "is not a key under {algorithm.kind: ppo}; say `when:` it is one",
    )
    path, message = refusal({"algorithm.rate": choice(1, 2)})
    assert path == "search.algorithm.rate"
    assert message.startswith("is not a key of the trial")


def test_a_baseline_of_another_kind_takes_nothing_from_the_trials_algorithm():
    searched = space(N_ENVS)
    trial = searched.configure({"algorithm.kind": "sb3", "algorithm.n_epochs": 3}, "baseline.set")
    assert trial.algorithm.model_dump(exclude_unset=True) == {"kind": "sb3", "n_epochs": 3}
