from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from sweeper.optim.spec import KFACSpec, LinearSchedule
from sweeper.rl.spec import ACKTRSpec, AlgorithmSpec, MLPSpec

algorithms: TypeAdapter[Any] = TypeAdapter(AlgorithmSpec)


@pytest.mark.parametrize("kind", ["adam", "adamw", "rmsprop", "sgd"])
def test_acktr_under_another_optimizer_is_refused(kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        algorithms.validate_python({"kind": "acktr", "optimizer": {"kind": kind}})
    (error,) = caught.value.errors()
    assert error["ctx"]["path"] == "optimizer.kind"
    assert f"must be kfac under acktr, got {kind}" in error["msg"]
    assert "algorithm.kind: a2c" in error["msg"]


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        ({"kind": "ppo"}, "ppo"),
        ({"kind": "ppo", "optimizer": {"kind": "kfac"}}, "ppo"),
        ({"kind": "a2c"}, "a2c"),
        ({"kind": "a2c", "optimizer": {"kind": "kfac"}}, "acktr"),
        ({"kind": "acktr"}, "acktr"),
    ],
)
def test_an_algorithm_is_named_by_what_it_does(algorithm: dict[str, Any], name: str) -> None:
    assert algorithms.validate_python(algorithm).name == name


def test_a_network_is_an_mlp_unless_it_says_otherwise() -> None:
    assert algorithms.validate_python({"kind": "ppo"}).network == MLPSpec()
    given = algorithms.validate_python({"kind": "ppo", "network": {"hidden": [8]}})
    assert given.network == MLPSpec(hidden=(8,))
    cnn = algorithms.validate_python({"kind": "ppo", "network": {"kind": "cnn"}}).network
    assert [(c.filters, c.kernel, c.stride) for c in cnn.convolutions] == [
        (32, 8, 4),
        (64, 4, 2),
        (64, 3, 1),
    ]
    assert (cnn.hidden, cnn.shared) == ((512,), True)
    impala = algorithms.validate_python({"kind": "ppo", "network": {"kind": "impala"}}).network
    assert (impala.channels, impala.hidden, impala.shared) == ((16, 32, 32), (256,), True)


def test_acktr_defaults() -> None:
    acktr = ACKTRSpec()
    assert (acktr.n_steps, acktr.entropy_coef, acktr.value_coef) == (20, 0.01, 0.5)
    assert acktr.max_grad_norm == 0.5
    assert acktr.optimizer == KFACSpec(
        learning_rate=0.25,
        schedule=LinearSchedule(final=0.0),
        momentum=0.9,
        clip_kl=1e-3,
        damping=0.01,
        stats_decay=0.99,
        stats_accum_iter=10,
        kfac_update=1,
        cold_iter=10,
        value_fisher_coef=1.0,
    )
