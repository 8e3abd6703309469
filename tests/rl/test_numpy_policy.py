"""The written-out gradient against torch's autograd, in float64."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sweeper.core.clock import BudgetSpec, Deadline, ManualClock
from sweeper.core.timing import PhaseTimer
from sweeper.optim.spec import KFACSpec
from sweeper.rl.a2c import A2C
from sweeper.rl.distributions import distribution_for
from sweeper.rl.images import Inputs
from sweeper.rl.learner import Learner
from sweeper.rl.numpy_policy import CHUNK, NumpyPolicy
from sweeper.rl.policy import ActorCritic, AutogradEvaluator
from sweeper.rl.ppo import PPO
from sweeper.rl.rollout import Batch, Rollout
from sweeper.rl.spec import A2CSpec, ACKTRSpec, MLPSpec, PPOSpec

ACTION_SPACES: dict[str, gymnasium.Space[Any]] = {
    "box": spaces.Box(-1, 1, (3,)),
    "discrete": spaces.Discrete(4, start=2),
    "multidiscrete": spaces.MultiDiscrete([2, 3, 4]),
    "multibinary": spaces.MultiBinary(3),
}


def make_policy(space: str, network: MLPSpec, dtype: torch.dtype = torch.float64) -> ActorCritic:
    inputs, distribution = Inputs(vector=5), distribution_for(ACTION_SPACES[space])
    policy = ActorCritic(inputs, distribution, network, seed=1, dtype=dtype)
    with torch.no_grad():  # the initial policy head is nearly zero: move everything
        noise = torch.randn(policy.flat.shape, generator=torch.Generator().manual_seed(2))
        policy.flat.add_(0.3 * noise.to(dtype))
    return policy


def make_batch(policy: ActorCritic, size: int) -> Batch:
    rng = np.random.default_rng(3)
    features = rng.standard_normal((size, 5))
    evaluator = AutogradEvaluator(policy)
    outputs, log_std = evaluator.outputs(features)
    noise = policy.distribution.noise(rng, (size,))
    action = policy.distribution.sample(outputs, log_std, noise)
    log_prob, value = evaluator.evaluate(features, action)
    return Batch(
        features,
        action,
        log_prob + rng.normal(0, 0.3, size),  # an older policy: some ratios leave the range
        value + rng.normal(0, 0.3, size),
        rng.standard_normal(size),
        rng.standard_normal(size),
    )


@pytest.mark.parametrize("space", ACTION_SPACES)
@pytest.mark.parametrize(
    "network",
    [
        MLPSpec(hidden=(16, 8)),
        MLPSpec(hidden=(12,)),
        MLPSpec(hidden=(8, 8, 8), activation="relu"),
        MLPSpec(hidden=(16, 8), shared=True),
    ],
    ids=["two", "one", "relu", "shared"],
)
@pytest.mark.parametrize("clip_range_value", [None, 0.2])
def test_ppo_gradient_and_losses_equal_autograd(
    space: str, network: MLPSpec, clip_range_value: float | None
) -> None:
    policy = make_policy(space, network)
    batch = make_batch(policy, 64)
    spec = PPOSpec(entropy_coef=0.03, clip_range_value=clip_range_value)
    timer = PhaseTimer(ManualClock())
    gradients, losses = [], []
    for evaluator in (NumpyPolicy(policy), AutogradEvaluator(policy)):
        learner = PPO(spec, policy, evaluator, seed=0, timer=timer)
        losses.append(learner._gradient(batch, 0.2, True))
        assert policy.flat.grad is not None
        gradients.append(policy.flat.grad.clone())
    assert torch.linalg.vector_norm(gradients[1]) > 0.1
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert losses[0] is not None
    assert 0.1 < losses[0].clip_fraction < 0.9


@pytest.mark.parametrize("space", ACTION_SPACES)
def test_a2c_gradient_and_losses_equal_autograd(space: str) -> None:
    policy = make_policy(space, MLPSpec(hidden=(16, 8)))
    batch = make_batch(policy, 64)
    spec = A2CSpec(entropy_coef=0.03)
    gradients, losses = [], []
    learner = A2C(spec, policy, AutogradEvaluator(policy), seed=0, timer=PhaseTimer(ManualClock()))
    for compute in (
        lambda: learner._derived(NumpyPolicy(policy), batch),
        lambda: learner._autograd(batch),
    ):
        losses.append(compute())
        assert policy.flat.grad is not None
        gradients.append(policy.flat.grad.clone())
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)


@pytest.mark.parametrize("space", ACTION_SPACES)
@pytest.mark.parametrize("shared", [False, True])
def test_evaluation_equals_torch_over_several_chunks(space: str, shared: bool) -> None:
    policy = make_policy(space, MLPSpec(hidden=(16, 8), shared=shared))
    batch = make_batch(policy, 2 * CHUNK + 7)
    fast, reference = NumpyPolicy(policy), AutogradEvaluator(policy)
    for ours, theirs in zip(
        fast.evaluate(batch.features, batch.action),
        reference.evaluate(batch.features, batch.action),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        fast.values(batch.features), reference.values(batch.features), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        fast.outputs(batch.features)[0], reference.outputs(batch.features)[0], atol=1e-12
    )


@pytest.mark.parametrize("space", ACTION_SPACES)
@pytest.mark.parametrize(
    "spec",
    [
        PPOSpec(n_steps=16, n_minibatches=4, n_epochs=3),
        PPOSpec(n_steps=16, n_minibatches=4, n_epochs=3, optimizer=KFACSpec(cold_iter=3)),
        ACKTRSpec(n_steps=16, optimizer=KFACSpec(cold_iter=0)),
    ],
    ids=["ppo", "ppo-kfac", "acktr"],
)
def test_a_whole_float32_update_stays_with_autograd(space: str, spec: PPOSpec | ACKTRSpec) -> None:
    flats = []
    for fast in (True, False):
        policy = make_policy(space, MLPSpec(), dtype=torch.float32)
        evaluator = NumpyPolicy(policy) if fast else AutogradEvaluator(policy)
        n_steps, n_envs = 16, 4
        draws = np.random.default_rng(4)
        features = draws.standard_normal((n_steps + 1, n_envs, 5), dtype=np.float32)
        outputs, log_std = evaluator.outputs(features[:-1].reshape(-1, 5))
        noise = policy.distribution.noise(draws, (len(outputs),))
        action = policy.distribution.sample(outputs, log_std, noise)
        ended = draws.random((2, n_steps, n_envs)) < 0.1
        final = np.argwhere(ended[1] & ~ended[0])
        rollout = Rollout(
            features,
            action.reshape(n_steps, n_envs, -1),
            draws.standard_normal((n_steps, n_envs), dtype=np.float32),
            ended[0],
            ended[1],
            (final[:, 0], final[:, 1], np.zeros((len(final), 5), np.float32)),
        )
        timer = PhaseTimer(ManualClock())
        learner: Learner = (
            PPO(spec, policy, evaluator, seed=7, timer=timer)
            if isinstance(spec, PPOSpec)
            else A2C(spec, policy, evaluator, seed=7, timer=timer)
        )
        statistics = learner.update(rollout, Deadline(ManualClock(), BudgetSpec(env_steps=1000)))
        assert (statistics.kfac_nu is not None) == isinstance(spec.optimizer, KFACSpec)
        flats.append(policy.flat.detach().clone())
    torch.testing.assert_close(flats[0], flats[1], rtol=0, atol=1e-5)
