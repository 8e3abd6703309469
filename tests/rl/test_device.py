"""Networks on devices and in bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from sweeper.core.errors import InputError
from sweeper.core.records import RunResult, RunStatus
from sweeper.rl.device import device_for
from sweeper.rl.distributions import distribution_for
from sweeper.rl.images import ImageLayout, Inputs
from sweeper.rl.policy import ActorCritic, AutogradEvaluator
from sweeper.rl.spec import CNNSpec, ConvolutionSpec, IMPALASpec, NetworkSpec
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="needs no CUDA device")

NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {},
    "cnn": {"convolutions": [{"filters": 8, "kernel": 4, "stride": 4}], "hidden": [32]},
    "impala": {"channels": [8, 8], "hidden": [32]},
}
IMAGE = Inputs(ImageLayout(3, 20, 20))


def trained(
    kind: str, optimizer: str = "adam", env_steps: int = 6_000, **network: Any
) -> RunResult:
    trial = TrialSpec.model_validate(
        {
            "env": {"make": "worlds:Matching" if kind == "mlp" else "worlds:Pictured"},
            "algorithm": {
                "kind": "ppo",
                "n_steps": 16,
                "n_minibatches": 4,
                "n_epochs": 4,
                "optimizer": {"kind": optimizer, "learning_rate": 2e-3},
                "network": {"kind": kind, **NETWORKS[kind], **network},
            },
            "parallelism": {"vec_env": "serial", "n_envs": 8},
            "budget": {"env_steps": env_steps},
        }
    )
    *_, result = run_trial(trial)
    assert isinstance(result, RunResult)
    return result


@without_cuda
def test_a_device_that_is_not_there_is_refused_by_name() -> None:
    assert device_for("auto").type == "cpu"
    with pytest.raises(InputError, match=r"algorithm\.network\.device: cuda: there is no CUDA"):
        device_for("cuda")
    result = trained("mlp", device="cuda")
    assert result.status is RunStatus.ERROR
    assert result.reason is not None
    assert "there is no CUDA device" in result.reason
    assert "\n" not in result.reason


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_it_learns_in_bfloat16(kind: str) -> None:
    result = trained(kind, precision="bf16")
    assert result.status is RunStatus.COMPLETED, result.reason
    assert result.final_return is not None
    assert result.final_return >= 9.0


@pytest.mark.parametrize("kind", ["cnn", pytest.param("impala", marks=pytest.mark.slow)])
def test_kfac_and_muon_run_in_bfloat16(kind: str) -> None:
    for optimizer in ("kfac", "muon"):
        result = trained(kind, optimizer, env_steps=512, precision="bf16")
        assert result.status is RunStatus.COMPLETED, result.reason


def test_bfloat16_is_near_float32_and_weights_stay_float32() -> None:
    seen = np.random.default_rng(0).integers(256, size=(64, 3, 20, 20), dtype=np.uint8)
    outputs = []
    for precision in ("float32", "bf16"):
        network = CNNSpec(
            kind="cnn", convolutions=(ConvolutionSpec(filters=8, kernel=4),), precision=precision
        )
        distribution = distribution_for(spaces.Box(-1, 1, (3,)))
        policy = ActorCritic(IMAGE, distribution, network, seed=0)
        assert policy.flat.dtype == torch.float32
        values = AutogradEvaluator(policy).values(seen)
        assert values.dtype == np.float32
        outputs.append(values)
    difference = np.abs(outputs[0] - outputs[1]).max()
    assert 0.0 < difference < 0.05 * np.abs(outputs[0]).max()


@needs_cuda
@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("optimizer", ["adam", "kfac", "muon"])
def test_it_learns_on_a_device(kind: str, precision: str, optimizer: str) -> None:
    result = trained(kind, optimizer, device="cuda", precision=precision)
    assert result.status is RunStatus.COMPLETED, result.reason
    assert result.final_return is not None
    assert result.final_return >= (9.0 if optimizer == "adam" else 4.0)


@needs_cuda
@pytest.mark.parametrize(
    "network",
    [
        CNNSpec(kind="cnn", convolutions=(ConvolutionSpec(filters=8, kernel=4),)),
        IMPALASpec(kind="impala", channels=(8, 8)),
    ],
    ids=lambda network: network.kind,
)
def test_a_device_computes_what_the_cpu_does(network: NetworkSpec) -> None:
    seen = np.random.default_rng(0).integers(256, size=(64, 3, 20, 20), dtype=np.uint8)
    distribution = distribution_for(spaces.Discrete(4))
    action = np.zeros((64, 1), np.int64)
    found = []
    for name in ("cpu", "cuda"):
        policy = ActorCritic(IMAGE, distribution, network, seed=0, device=device_for(name))
        found.append(AutogradEvaluator(policy).evaluate(seen, action))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-2, atol=1e-3)  # TF32
