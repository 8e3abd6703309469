"""Fisher passes against the Fisher matrix by its definition, by autograd and by curvlinops."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from sweeper.optim.kfac import KFAC, LayerSample
from sweeper.optim.spec import KFACSpec
from sweeper.rl.distributions import distribution_for
from sweeper.rl.fisher import FisherPass, autograd_fisher
from sweeper.rl.images import Inputs
from sweeper.rl.numpy_policy import NumpyPolicy
from sweeper.rl.policy import ActorCritic, AutogradEvaluator
from sweeper.rl.spec import MLPSpec

ACTION_SPACES: dict[str, gymnasium.Space[Any]] = {
    "box": spaces.Box(-1, 1, (3,)),
    "discrete": spaces.Discrete(4, start=2),
    "multidiscrete": spaces.MultiDiscrete([2, 3, 4]),
    "multibinary": spaces.MultiBinary(3),
}
D, DAMPING = 4, 0.03


def make_policy(
    space: str,
    hidden: tuple[int, ...] = (6, 5),
    activation: Any = "tanh",
    shared: bool = False,
) -> Any:
    network = MLPSpec(hidden=hidden, activation=activation, shared=shared)
    distribution = distribution_for(ACTION_SPACES[space])
    policy = ActorCritic(Inputs(vector=D), distribution, network, seed=1, dtype=torch.float64)
    with torch.no_grad():  # the initial policy head is nearly zero: move everything
        generator = torch.Generator().manual_seed(2)
        policy.flat.add_(0.4 * torch.randn(policy.flat.shape, generator=generator).double())
    return policy


def observations(size: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((size, D))


def kfac_for(policy: ActorCritic, **overrides: Any) -> KFAC:
    spec = KFACSpec(**{"cold_iter": 0, "damping": DAMPING, "clip_kl": 1e9} | overrides)
    assert policy.flat.grad is not None
    return KFAC(spec, policy.flat.grad, policy.fisher_blocks())


def drawn(policy: ActorCritic, features: np.ndarray, noise: np.ndarray, eps: float) -> Any:
    """A pass on the written-out path, of which the copy outlives the next."""
    network = NumpyPolicy(policy)
    action = np.zeros((len(features), policy.distribution.n_actions), np.int64)
    network.forward(features, action)
    samples = network.fisher(noise, np.full(len(features), -eps))
    return [LayerSample(a.clone(), g.clone()) for a, g in samples]


def in_expectation(policy: ActorCritic, features: np.ndarray) -> list[LayerSample]:
    """Samples whose mean second moments are the expectation over what could be drawn.

    Every discrete action, weighted by the root of its probability; for normals, the points
    +-sqrt(2K) on each axis, and for the critic +-1, which have the moments of the noise.
    """
    outputs, _ = AutogradEvaluator(policy).outputs(features)
    size, n_outputs = outputs.shape
    passes, weights = [], []
    for k in range(n_outputs):
        for sign in (1.0, -1.0):
            noise = np.zeros((size, n_outputs))
            if policy.distribution.has_log_std:
                noise[:, k] = sign * np.sqrt(n_outputs)
                weight = np.ones(size)
            else:
                noise[:, k] = 1e6  # this action wins
                weight = np.sqrt(n_outputs * np.exp(outputs[:, k]) / np.exp(outputs).sum(1))
            passes.append(drawn(policy, features, noise, sign))
            weights.append(torch.from_numpy(weight)[:, None])
    value_only = [len(passes[0]) - 1, *range(len(passes[0]) - 2)]

    def weighted(layer: int, samples: LayerSample, weight: Tensor) -> Tensor:
        g = samples.g.clone()
        g[0 if layer != value_only[0] else 1 :][:1] *= weight  # the policy's, not the critic's
        return g

    return [
        LayerSample(
            torch.cat([p[layer].a for p in passes], 1),
            torch.cat(
                [weighted(layer, p[layer], w) for p, w in zip(passes, weights, strict=True)], 1
            ),
        )
        for layer in range(len(passes[0]))
    ]


def jacobian(policy: ActorCritic, features: np.ndarray) -> Tensor:
    """d(policy outputs, value) / d(flat), [K + 1, P], at one observation."""

    def outputs(flat: Tensor) -> Tensor:
        weights = policy.weights(flat)
        h = torch.from_numpy(features).expand(2, 1, D)
        for weight, bias in weights.hidden:
            h = torch.tanh(torch.baddbmm(bias[:, None], h, weight.mT))
        policy_outputs = h[0, 0] @ weights.policy_weight.T + weights.policy_bias
        return torch.cat((policy_outputs, h[1, 0] @ weights.value_weight.T + weights.value_bias))

    result: Any = torch.func.jacrev(outputs)(policy.flat.detach())
    return result


def output_fisher(policy: ActorCritic, features: np.ndarray) -> Tensor:
    """The Fisher matrix of (policy outputs, value), [K + 1, K + 1], at one observation."""
    outputs, log_std = AutogradEvaluator(policy).outputs(features)
    logits = torch.from_numpy(outputs[0])
    if log_std is not None:
        block = torch.diag(torch.exp(-2.0 * torch.from_numpy(log_std)))
    else:
        p = torch.softmax(logits, 0)
        block = torch.diag(p) - torch.outer(p, p)
    return torch.block_diag(block, torch.ones(1, 1, dtype=torch.float64))


@pytest.mark.parametrize("space", ACTION_SPACES)
@pytest.mark.parametrize(
    "network",
    [((6, 5), "tanh"), ((7,), "tanh"), ((6, 5, 4), "relu"), ((6, 5), "tanh", True)],
    ids=["two", "one", "relu", "shared"],
)
def test_the_written_out_pass_equals_autograd(space: str, network: Any) -> None:
    policy = make_policy(space, *network)
    features = observations(40)
    rng = np.random.default_rng(5)
    noise = policy.distribution.noise(rng, (40,))
    d_value = rng.standard_normal(40)
    numpy_policy = NumpyPolicy(policy)
    action = np.zeros((40, policy.distribution.n_actions), np.int64)
    numpy_policy.forward(features, action)
    fast = numpy_policy.fisher(noise, d_value)
    reference = autograd_fisher(policy, features, noise, d_value)
    assert [tuple(s.g.shape) for s in fast] == [tuple(s.g.shape) for s in reference]
    for ours, theirs in zip(fast, reference, strict=True):
        torch.testing.assert_close(ours.a, theirs.a, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(ours.g, theirs.g, rtol=1e-6, atol=1e-6)  # float32 noise
        assert ours.g.abs().max() > 0.01


@pytest.mark.parametrize("space", ACTION_SPACES)
def test_a_pass_leaves_the_gradient_that_follows_it_alone(space: str) -> None:
    policy = make_policy(space)
    features = observations(10)
    rng = np.random.default_rng(5)
    network = NumpyPolicy(policy)
    gradients = []
    for with_pass in (False, True):
        action = np.zeros((10, policy.distribution.n_actions), np.int64)
        network.forward(features, action)
        if with_pass:
            network.fisher(policy.distribution.noise(rng, (10,)), rng.standard_normal(10))
        network.backward(np.linspace(-1, 1, 10), 0.1, np.linspace(0, 1, 10))
        assert policy.flat.grad is not None
        gradients.append(policy.flat.grad.clone())
    assert torch.equal(*gradients)


@pytest.mark.parametrize("space", ACTION_SPACES)
def test_actions_are_drawn_from_the_policy_and_not_from_the_rollout(space: str) -> None:
    policy = make_policy(space)
    features = observations(40)
    noise = policy.distribution.noise(np.random.default_rng(5), (40,))
    network = NumpyPolicy(policy)
    passes = []
    for taken in (0, 1):
        network.forward(features, np.full((40, policy.distribution.n_actions), taken))
        passes.append([s.g.clone() for s in network.fisher(noise, np.zeros(40))])
    for one, other in zip(*passes, strict=True):
        assert torch.equal(one, other)


def test_softmax_head_gradients_have_the_covariance_of_the_actions() -> None:
    policy = make_policy("discrete")
    features = observations(7)
    kfac = kfac_for(policy)
    kfac.observe(in_expectation(policy, features))
    expected = sum(output_fisher(policy, row[None])[:-1, :-1] for row in features) / 7
    torch.testing.assert_close(kfac.layers[-2].g[0], expected)


@pytest.mark.parametrize("space", ["discrete", "box"])
def test_with_a_batch_of_one_the_factors_are_the_exact_fisher_matrix(space: str) -> None:
    """J^T F_outputs J: of a softmax, of a normal's mean (J^T J / sigma^2), of the critic."""
    policy = make_policy(space)
    features = observations(1)
    kfac = kfac_for(policy)
    kfac.observe(in_expectation(policy, features))
    exact = (
        jacobian(policy, features).T @ output_fisher(policy, features) @ jacobian(policy, features)
    )
    index = policy.weights(torch.arange(len(policy.flat)))
    nets = [(w[net], b[net]) for w, b in index.hidden for net in (0, 1)]
    nets += [(index.policy_weight, index.policy_bias), (index.value_weight, index.value_bias)]
    factors = [
        (layer.a[min(net, len(layer.a) - 1)], layer.g[net])
        for layer in kfac.layers
        for net in range(len(layer.g))
    ]
    gradient = torch.randn(policy.flat.shape, generator=torch.Generator().manual_seed(7)).double()
    assert policy.flat.grad is not None
    policy.flat.grad.copy_(gradient)
    kfac.precondition(0.25)
    for (weight, bias), (a, g) in zip(nets, factors, strict=True):
        rows = torch.cat((weight, bias[:, None]), 1).flatten()
        block = exact[rows][:, rows]
        assert block.abs().max() > 1e-3
        torch.testing.assert_close(torch.kron(g, a), block, rtol=1e-9, atol=1e-12)
        damped = block + DAMPING * torch.eye(len(rows), dtype=torch.float64)
        torch.testing.assert_close(
            policy.flat.grad[rows], torch.linalg.solve(damped, gradient[rows]), rtol=1e-8, atol=1e-9
        )


def test_the_fisher_matrix_of_log_std_is_two() -> None:
    policy = make_policy("box")
    (block,) = policy.fisher_blocks().known
    mean = torch.zeros(3, dtype=torch.float64)
    log_std = policy.weights().log_std.detach()

    def divergence(other: Tensor) -> Tensor:
        here = torch.distributions.Normal(mean, log_std.exp())
        there = torch.distributions.Normal(mean, other.exp())
        return torch.distributions.kl_divergence(here, there).sum()

    hessian = torch.autograd.functional.hessian(divergence, log_std)
    torch.testing.assert_close(hessian, block.fisher * torch.eye(3, dtype=torch.float64))
    assert policy.flat.grad is not None
    policy.flat.grad.fill_(1.0)
    assert block.gradient.data_ptr() == policy.weights(policy.flat.grad).log_std.data_ptr()


@pytest.mark.parametrize("path", [NumpyPolicy, AutogradEvaluator])
def test_the_critic_weighs_by_its_coefficient(path: type) -> None:
    factors = []
    for coef in (1.0, 4.0):
        policy = make_policy("discrete")
        kfac = kfac_for(policy, value_fisher_coef=coef)
        evaluator = path(policy)
        features = observations(30)
        if path is NumpyPolicy:
            evaluator.forward(features, np.zeros((30, 1), np.int64))
        FisherPass(kfac, policy, evaluator, seed=0)(features)
        factors.append([layer.g for layer in kfac.layers])
    for one, four in zip(*factors, strict=True):
        if len(one) == 2:
            torch.testing.assert_close(four[0], one[0])
            torch.testing.assert_close(four[1], 4.0 * one[1])
    torch.testing.assert_close(factors[1][-1], 4.0 * factors[0][-1])


def test_the_noise_is_not_that_of_the_rollout() -> None:
    policy = make_policy("box")
    kfac = kfac_for(policy)
    shown: list[Any] = []
    kfac.observe = shown.append  # type: ignore[method-assign]
    FisherPass(kfac, policy, AutogradEvaluator(policy), seed=0)(observations(5))
    rollout = policy.distribution.noise(np.random.default_rng(0), (5,))
    drawn_noise = -shown[0][-2].g[0] * policy.weights().log_std.detach().exp()
    assert not np.isclose(drawn_noise.numpy(), rollout, atol=1e-3).any()


def reference_operators(policy: ActorCritic, features: np.ndarray) -> list[Any]:
    """curvlinops' K-FAC of the policy network and of the value network."""
    with warnings.catch_warnings():
        # torch.jit.script is deprecated; a dependency of curvlinops calls it when imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        import curvlinops
    operators = []
    weights = policy.weights()
    heads = [
        (weights.policy_weight, weights.policy_bias),
        (weights.value_weight, weights.value_bias),
    ]
    for net, head in enumerate(heads):
        modules: list[torch.nn.Module] = []
        for weight, bias in [(w[net], b[net]) for w, b in weights.hidden] + [head]:
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
            linear.weight.data, linear.bias.data = weight.detach(), bias.detach()
            modules += [linear, torch.nn.Tanh()]
        model = torch.nn.Sequential(*modules[:-1])
        inputs = torch.from_numpy(features)
        if net == 0 and not policy.distribution.has_log_std:
            loss: torch.nn.Module = torch.nn.CrossEntropyLoss()
            targets = torch.zeros(len(features), dtype=torch.int64)
        else:
            loss = torch.nn.MSELoss()
            targets = torch.zeros(len(features), len(head[1]), dtype=torch.float64)
        operators.append(
            curvlinops.KFACLinearOperator(
                model,
                loss,
                list(model.parameters()),
                [(inputs, targets)],
                fisher_type=curvlinops.FisherType.TYPE2,
                separate_weight_and_bias=False,
            )
        )
    return operators


@pytest.mark.parametrize("factored", [False, True])
def test_curvlinops_computes_the_same_natural_gradient(factored: bool) -> None:
    policy = make_policy("discrete")
    features = observations(12)
    kfac = kfac_for(policy, factored_damping=factored)
    kfac.observe(in_expectation(policy, features))
    gradient = torch.randn(policy.flat.shape, generator=torch.Generator().manual_seed(7)).double()
    assert policy.flat.grad is not None
    policy.flat.grad.copy_(gradient)
    kfac.precondition(0.25)
    given, result = policy.weights(gradient), policy.weights(policy.flat.grad)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from curvlinops import KFACInverseLinearOperator
    for net, operator in enumerate(reference_operators(policy, features)):
        scale = 1.0 if net == 0 else 2.0  # MSELoss has no half: twice our critic's Fisher

        def of_net(weights: Any, net: int = net) -> list[Tensor]:
            head = [weights.value_weight, weights.value_bias]
            if net == 0:
                head = [weights.policy_weight, weights.policy_bias]
            return [part[net] for layer in weights.hidden for part in layer] + head

        inverse = KFACInverseLinearOperator(
            operator,
            damping=scale * DAMPING,
            use_exact_damping=not factored,
            use_heuristic_damping=factored,
        )
        for ours, theirs in zip(of_net(result), inverse @ of_net(given), strict=True):
            torch.testing.assert_close(ours, scale * theirs, rtol=1e-7, atol=1e-10)
