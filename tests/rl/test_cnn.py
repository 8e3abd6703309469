"""Convolutional networks against `torch.nn`, and learning from images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import worlds
from gymnasium import spaces
from rl import twins
from torch import nn

from sweeper.core.clock import BudgetSpec, Deadline, ManualClock
from sweeper.core.records import RunResult, RunStatus
from sweeper.core.timing import PhaseTimer
from sweeper.envs.serial import SerialVecEnv
from sweeper.rl.actor_critic import ActorCriticLearner
from sweeper.rl.bodies import body_for
from sweeper.rl.distributions import distribution_for
from sweeper.rl.images import ImageLayout, Inputs, image_layout
from sweeper.rl.policy import CHUNK, ActorCritic, AutogradEvaluator
from sweeper.rl.ppo import PPO
from sweeper.rl.rollout import Batch, Collector
from sweeper.rl.spec import CNNSpec, ConvolutionSpec, IMPALASpec, NetworkSpec, PPOSpec
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec

ATARI = Inputs(ImageLayout(4, 84, 84))
LAYOUTS = {"first": (3, 11, 10), "last": (11, 10, 3)}
TINY = CNNSpec(
    kind="cnn",
    convolutions=(
        ConvolutionSpec(filters=4, kernel=3, stride=2),
        ConvolutionSpec(filters=5, kernel=2, stride=1),
    ),
    hidden=(7,),
)
NETWORKS = {"cnn": TINY, "impala": IMPALASpec(kind="impala", channels=(4, 5), hidden=(7,))}


def make_policy(shape: tuple[int, ...], network: NetworkSpec) -> ActorCritic:
    inputs, distribution = Inputs(image_layout(shape)), distribution_for(spaces.Discrete(3))
    return ActorCritic(inputs, distribution, network, seed=1, dtype=torch.float64)


def images(size: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(3).integers(256, size=(size, *shape), dtype=np.uint8)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shared", [True, False])
def test_it_is_the_network_that_torch_makes_of_the_same_layers(
    kind: str, layout: str, shared: bool
) -> None:
    shape = LAYOUTS[layout]
    policy = make_policy(shape, NETWORKS[kind].model_copy(update={"shared": shared}))
    seen = images(5, shape)
    outputs, value, _ = policy.forward(torch.from_numpy(seen))
    scaled = torch.from_numpy(seen if layout == "first" else seen.transpose(0, 3, 1, 2)) / 255.0
    both = zip(twins.heads(policy), (outputs, value[:, None]), strict=True)
    for net, (head, ours) in enumerate(both):
        theirs = twins.twin(policy, 0 if shared else net, head)(scaled.double())
        assert theirs.std() > 1e-4
        torch.testing.assert_close(ours, theirs)


def test_the_default_is_the_nature_network() -> None:
    policy = ActorCritic(ATARI, distribution_for(spaces.Discrete(6)), CNNSpec(kind="cnn"), seed=0)
    # 4 x 32 x 8^2 + 32, 32 x 64 x 4^2 + 64, 64 x 64 x 3^2 + 64, 3136 x 512 + 512, and the heads
    assert len(policy.flat) == 8224 + 32832 + 36928 + 1606144 + 6 * 513 + 513
    for weight, _ in policy.weights().below:
        rows = weight[0].detach().flatten(1)
        gram = rows @ rows.T
        torch.testing.assert_close(gram, 2.0 * torch.eye(len(rows)), atol=1e-4, rtol=0.0)


def test_the_default_impala_network_is_the_large_one_of_its_paper() -> None:
    network = IMPALASpec(kind="impala")
    policy = ActorCritic(ATARI, distribution_for(spaces.Discrete(6)), network, seed=0)
    # 4 x 16 x 3^2 + 16 and 16 x 16 x 3^2 + 16, and so on: 15 convolutions. 84 pixels become 42, 21
    # and 11.
    convolutions = (592 + 4 * 2320) + (4640 + 4 * 9248) + 5 * 9248
    assert len(policy.flat) == convolutions + (32 * 11**2 * 256 + 256) + 6 * 257 + 257
    weights = policy.weights()
    assert len(weights.convolutions) == 15
    for i, (weight, _) in enumerate(weights.below):
        rows = weight[0].detach().flatten(1)
        opens_stage, ends_block = i < 15 and i % 5 == 0, i < 15 and i % 5 in (2, 4)
        square = 1.0 if opens_stage else 2.0 / 6 if ends_block else 2.0
        gram = rows @ rows.T
        torch.testing.assert_close(gram, square * torch.eye(len(rows)), atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("depth", [1, 4])
def test_residual_blocks_at_first_multiply_little(depth: int) -> None:
    body = body_for(IMPALASpec(kind="impala", channels=(16,) * depth), ImageLayout(16, 32, 32))
    generator = torch.Generator().manual_seed(0)
    seen = torch.randn(8, 16, 32, 32, generator=generator)
    full = []
    for layer in body.convolutions:
        weight = torch.empty(1, layer.filters, layer.channels, 3, 3)
        nn.init.orthogonal_(weight[0], layer.gain, generator=generator)
        full.append((weight, torch.zeros(1, layer.filters)))
    bare = [(w * (i % 5 not in (2, 4)), b) for i, (w, b) in enumerate(full)]
    with_blocks, without = (body(seen, weights, []).square().mean() for weights in (full, bare))
    assert 1.1 < with_blocks / without < math.e**2


def test_acting_evaluating_and_learning_see_the_same_network() -> None:
    shape = LAYOUTS["first"]
    policy = make_policy(shape, TINY)
    evaluator, seen = AutogradEvaluator(policy), images(CHUNK + 3, shape)
    action = np.random.default_rng(4).integers(3, size=(len(seen), 1))
    outputs, value, _ = policy.forward(torch.from_numpy(seen))
    expected = policy.distribution.log_prob(outputs, None, torch.from_numpy(action))
    acted, _ = evaluator.outputs(seen)
    log_prob, evaluated = evaluator.evaluate(seen, action)
    np.testing.assert_allclose(acted, outputs.detach().numpy())
    np.testing.assert_allclose(log_prob, expected.detach().numpy())
    np.testing.assert_allclose(evaluated, value.detach().numpy())
    np.testing.assert_allclose(evaluator.values(seen), value.detach().numpy())


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("shared", [True, False])
def test_the_gradient_is_the_slope_of_the_loss(kind: str, shared: bool) -> None:
    shape = LAYOUTS["last"]
    policy = make_policy(shape, NETWORKS[kind].model_copy(update={"shared": shared}))
    rng = np.random.default_rng(5)
    action = rng.integers(3, size=(16, 1))
    evaluator, seen = AutogradEvaluator(policy), images(16, shape)
    log_prob, value = evaluator.evaluate(seen, action)
    batch = Batch(seen, action, log_prob, value, rng.normal(size=16), rng.normal(size=16))
    spec = PPOSpec(normalize_advantage=False, network=policy.network, entropy_coef=0.1)
    ppo = PPO(spec, policy, evaluator, seed=0, timer=PhaseTimer(ManualClock()))

    def loss() -> float:
        losses = ppo._gradient(batch, 0.2, True)
        assert losses is not None
        return losses.policy_loss + 0.5 * losses.value_loss - 0.1 * losses.entropy

    loss()
    assert policy.flat.grad is not None
    gradient = policy.flat.grad.clone()
    for _ in range(3):
        direction = torch.from_numpy(rng.normal(size=len(policy.flat)))
        ends = []
        for sign in (1e-8, -2e-8):  # few kinks lie between the two
            with torch.no_grad():
                policy.flat.add_(sign * direction)
            ends.append(loss())
        with torch.no_grad():
            policy.flat.add_(1e-8 * direction)
        slope = (ends[0] - ends[1]) / 2e-8
        assert slope == pytest.approx(torch.dot(gradient, direction).item(), rel=1e-4)


def test_a_rollout_keeps_bytes_and_their_final_images() -> None:
    with SerialVecEnv([lambda: worlds.Pictured((12, 12, 3))] * 2) as env:
        network = TINY.model_copy(update={"hidden": (8,)})
        timer, clock = PhaseTimer(ManualClock()), ManualClock()
        learner = ActorCriticLearner(PPOSpec(network=network), env, seed=0, timer=timer)
        collector = Collector(
            env,
            learner.encode,
            learner.evaluator,
            learner.distribution,
            n_steps=15,
            seed=0,
            timer=timer,
        )
        collector.reset()
        rollout = collector.collect(Deadline(clock, BudgetSpec(env_steps=10**6)))
        assert rollout is not None
        assert rollout.features.dtype == np.uint8
        assert rollout.features.shape == (16, 2, 12, 12, 3)
        assert rollout.features.any(axis=(2, 3, 4)).all()


def final_return(algorithm: dict[str, Any], shape: list[int], *, env_steps: int) -> float:
    trial = TrialSpec.model_validate(
        {
            "env": {"make": "worlds:Pictured", "kwargs": {"shape": shape}},
            "algorithm": algorithm,
            "parallelism": {"vec_env": "serial", "n_envs": 8},
            "budget": {"env_steps": env_steps},
        }
    )
    *_, result = run_trial(trial)
    assert isinstance(result, RunResult)
    assert result.status is RunStatus.COMPLETED, result.reason
    assert result.final_return is not None
    return result.final_return


SMALL = {
    "cnn": {
        "kind": "cnn",
        "convolutions": [{"filters": 8, "kernel": 4, "stride": 2}],
        "hidden": [32],
    },
    "impala": {"kind": "impala", "channels": [4, 8], "hidden": [32]},
}


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("cnn", [2, 12, 12]),
        ("cnn", [12, 12, 3]),
        pytest.param("impala", [12, 12, 3], marks=pytest.mark.slow),
    ],
)
def test_ppo_learns_from_images(kind: str, shape: list[int]) -> None:
    algorithm = {
        "kind": "ppo",
        "n_steps": 16,
        "n_minibatches": 4,
        "n_epochs": 4 if kind == "impala" else 10,
        "optimizer": {"kind": "adam", "learning_rate": 1e-3},
        "network": SMALL[kind],
    }
    assert final_return(algorithm, shape, env_steps=6_000) == 10.0


@pytest.mark.parametrize(
    ("kind", "env_steps"),
    [("cnn", 8_000), pytest.param("impala", 16_000, marks=pytest.mark.slow)],
)
def test_acktr_learns_from_images(kind: str, env_steps: int) -> None:
    algorithm = {"kind": "acktr", "network": SMALL[kind]}
    assert final_return(algorithm, [12, 12, 3], env_steps=env_steps) >= 9.0


@pytest.mark.slow
def test_the_nature_network_learns_from_images() -> None:
    algorithm = {
        "kind": "ppo",
        "n_steps": 16,
        "n_minibatches": 4,
        "n_epochs": 4,
        "optimizer": {"kind": "adam", "learning_rate": 1e-3},
        "network": {"kind": "cnn"},
    }
    assert final_return(algorithm, [4, 36, 36], env_steps=8_000) >= 9.0
