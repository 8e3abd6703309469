"""K-FAC of convolutions: against its definition, and against curvlinops, in float64."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from rl import twins
from torch import Tensor, nn

from sweeper.optim.kfac import KFAC, PATCHED, ConvolutionSample, LayerSample
from sweeper.optim.spec import KFACSpec
from sweeper.rl.distributions import distribution_for
from sweeper.rl.fisher import FisherPass, autograd_fisher
from sweeper.rl.images import Inputs, image_layout
from sweeper.rl.policy import ActorCritic, AutogradEvaluator
from sweeper.rl.spec import CNNSpec, ConvolutionSpec, IMPALASpec

SHAPE, DAMPING = (2, 7, 6), 0.03
CNN = CNNSpec(
    kind="cnn",
    convolutions=(
        ConvolutionSpec(filters=3, kernel=3, stride=2),
        ConvolutionSpec(filters=4, kernel=2, stride=1),
    ),
    hidden=(5,),
)
NETWORKS = {"cnn": CNN, "impala": IMPALASpec(kind="impala", channels=(3, 2), hidden=(5,))}


def make_policy(kind: str = "cnn", *, shared: bool) -> ActorCritic:
    network = NETWORKS[kind].model_copy(update={"shared": shared})
    inputs, distribution = Inputs(image_layout(SHAPE)), distribution_for(spaces.Discrete(4))
    policy = ActorCritic(inputs, distribution, network, seed=1, dtype=torch.float64)
    with torch.no_grad():  # the initial policy head is nearly zero: move everything
        generator = torch.Generator().manual_seed(2)
        policy.flat.add_(0.3 * torch.randn(policy.flat.shape, generator=generator).double())
    return policy


def images(size: int) -> np.ndarray:
    return np.random.default_rng(3).integers(256, size=(size, *SHAPE), dtype=np.uint8)


def kfac_for(policy: ActorCritic, **overrides: Any) -> KFAC:
    spec = KFACSpec(**{"cold_iter": 0, "damping": DAMPING, "clip_kl": 1e9} | overrides)
    assert policy.flat.grad is not None
    return KFAC(spec, policy.flat.grad, policy.fisher_blocks())


@pytest.mark.parametrize("padding", [0, 1])
def test_factors_are_sums_and_means_over_patches(padding: int) -> None:
    generator = torch.Generator().manual_seed(0)
    size, (height, width) = PATCHED + 3, (4, 3) if padding else (3, 2)
    seen = torch.randn(1, size, *SHAPE, generator=generator, dtype=torch.float64)
    g = torch.randn(2, size, 3, height, width, generator=generator, dtype=torch.float64)
    a, b = ConvolutionSample(seen, g, kernel=3, stride=2, padding=padding).moments()
    expected_a, expected_b = torch.zeros_like(a), torch.zeros_like(b)
    padded = nn.functional.pad(seen, (padding,) * 4)
    for sample in range(size):
        for y in range(height):
            for x in range(width):
                patch = padded[0, sample, :, 2 * y : 2 * y + 3, 2 * x : 2 * x + 3].flatten()
                row = torch.cat((patch, torch.ones(1, dtype=torch.float64)))
                expected_a[0] += torch.outer(row, row) / size
                for net in range(2):
                    there = g[net, sample, :, y, x]
                    expected_b[net] += torch.outer(there, there) / (size * height * width)
    torch.testing.assert_close(a, expected_a)
    torch.testing.assert_close(b, expected_b)


def test_a_kernel_as_large_as_the_image_is_a_linear_layer() -> None:
    generator = torch.Generator().manual_seed(0)
    seen = torch.randn(1, 9, *SHAPE, generator=generator, dtype=torch.float64)[..., :6, :]
    g = torch.randn(1, 9, 3, 1, 1, generator=generator, dtype=torch.float64)
    ours = ConvolutionSample(seen, g, kernel=6, stride=1).moments()
    theirs = LayerSample(seen.flatten(2), g.flatten(2)).moments()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("shared", [True, False])
def test_gradients_of_a_pass_are_those_of_each_sample_alone(kind: str, shared: bool) -> None:
    policy, seen = make_policy(kind, shared=shared), images(5)
    rng = np.random.default_rng(4)
    noise, d_value = policy.distribution.noise(rng, (5,)), rng.standard_normal(5)
    together = autograd_fisher(policy, seen, noise, d_value)
    for i in range(5):
        alone = autograd_fisher(policy, seen[i : i + 1], noise[i : i + 1], d_value[i : i + 1])
        for whole, one in zip(together, alone, strict=True):
            torch.testing.assert_close(whole.g[:, i], one.g[:, 0])
            assert one.g.abs().max() > 1e-6


def test_the_running_factors_are_those_of_the_pass() -> None:
    policy, seen = make_policy(shared=True), images(6)
    kfac = kfac_for(policy)
    FisherPass(kfac, policy, AutogradEvaluator(policy), seed=0)(seen)
    rng = np.random.default_rng((0, 1))
    noise = policy.distribution.noise(rng, (6,))
    eps = rng.standard_normal(6, dtype=np.float32)
    samples = autograd_fisher(policy, seen, noise, (-eps).astype(np.float64))
    assert [type(s) for s in samples] == [ConvolutionSample] * 2 + [LayerSample] * 3
    for layer, sample in zip(kfac.layers, samples, strict=True):
        a, g = sample.moments()
        torch.testing.assert_close(layer.a, a)
        torch.testing.assert_close(layer.g, g)


def expected_pass(policy: ActorCritic, seen: np.ndarray) -> list[ConvolutionSample | LayerSample]:
    """Samples of the policy alone, whose mean second moments are the expectation over actions:
    one pass an action, each sample's gradient weighted by the root of its probability."""
    outputs, _ = AutogradEvaluator(policy).outputs(seen)
    size, n_actions = outputs.shape
    probability = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    passes = []
    for action in range(n_actions):
        noise = np.zeros((size, n_actions))
        noise[:, action] = 1e6  # this action wins
        weight = torch.from_numpy(np.sqrt(n_actions * probability[:, action]))
        drawn = autograd_fisher(policy, seen, noise, np.zeros(size))
        passes.append(
            [s._replace(g=s.g * weight.view(1, -1, *[1] * (s.g.dim() - 2))) for s in drawn]
        )
    joined = []
    for parts in zip(*passes, strict=True):
        first, g = parts[0], torch.cat([part.g for part in parts], 1)
        inputs = torch.cat([part[0] for part in parts], 1)
        if isinstance(first, ConvolutionSample):
            joined.append(first._replace(images=inputs, g=g))
        else:
            joined.append(LayerSample(inputs, g))
    return joined


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("factored", [False, True])
def test_curvlinops_computes_the_same_natural_gradient(kind: str, factored: bool) -> None:
    with warnings.catch_warnings():
        # torch.jit.script is deprecated; a dependency of curvlinops calls it when imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        import curvlinops
    policy, seen = make_policy(kind, shared=True), images(8)
    kfac = kfac_for(policy, factored_damping=factored)
    kfac.observe(expected_pass(policy, seen))
    gradient = torch.randn(policy.flat.shape, generator=torch.Generator().manual_seed(7)).double()
    assert policy.flat.grad is not None
    policy.flat.grad.copy_(gradient)
    kfac.precondition(0.25)
    model = twins.twin(policy, 0, twins.heads(policy)[0])
    operator = curvlinops.KFACLinearOperator(
        model,
        nn.CrossEntropyLoss(),
        list(model.parameters()),
        [(torch.from_numpy(seen).double() / 255.0, torch.zeros(8, dtype=torch.int64))],
        fisher_type=curvlinops.FisherType.TYPE2,
        separate_weight_and_bias=False,
    )
    inverse = curvlinops.KFACInverseLinearOperator(
        operator,
        damping=DAMPING,
        use_exact_damping=not factored,
        use_heuristic_damping=factored,
    )

    def of_policy(flat: Tensor) -> list[Tensor]:
        weights = policy.weights(flat)
        below = [part[0] for layer in weights.below for part in layer]
        return [*below, weights.policy_weight, weights.policy_bias]

    given = [part.clone() for part in of_policy(gradient)]
    for ours, theirs in zip(of_policy(policy.flat.grad), inverse @ given, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-10)
