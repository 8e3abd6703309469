"""K-FAC against the dense matrix that it stands for, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from sweeper.core.errors import DivergedError
from sweeper.optim.kfac import KFAC, FisherBlocks, KnownFisher, LayerSample, LinearGradient
from sweeper.optim.spec import KFACSpec

N, OUT, IN, B = 2, 3, 4, 50
DAMPING = 0.02


def spec(**overrides: Any) -> KFACSpec:
    return KFACSpec(**{"cold_iter": 0, "damping": DAMPING, "clip_kl": 1e9} | overrides)


class Bench:
    """One pair of layers and two parameters of known Fisher 2, over one flat gradient."""

    def __init__(self, kfac: KFACSpec, *, shares_input: bool = False) -> None:
        self.flat = torch.zeros(N * OUT * IN + N * OUT + 2, dtype=torch.float64)
        weight, bias, known = self.flat.split([N * OUT * IN, N * OUT, 2])
        layer = LinearGradient(weight.view(N, OUT, IN), bias.view(N, OUT), shares_input)
        self.layer = layer
        self.kfac = KFAC(kfac, self.flat, FisherBlocks([layer], [KnownFisher(known, 2.0)]))

    def dense(self, net: int) -> Tensor:
        """F of one layer over [W | b] row by row: G (x) A."""
        layer = self.kfac.layers[0]
        return torch.kron(layer.g[net], layer.a[0 if self.layer.shares_input else net])

    def joined(self) -> Tensor:
        return torch.cat((self.layer.weight, self.layer.bias[:, :, None]), 2).flatten(1)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def eye(size: int) -> Tensor:
    return torch.eye(size, dtype=torch.float64)


def sample(seed: int = 0, *, shared: bool = False) -> LayerSample:
    mixing = draw(OUT, OUT, seed=9)
    return LayerSample(draw(1 if shared else N, B, IN, seed=seed), draw(N, B, OUT, seed=1) @ mixing)


def test_factors_are_the_second_moments_of_inputs_with_a_one_and_of_gradients() -> None:
    bench = Bench(spec())
    a, g = sample()
    bench.kfac.observe([LayerSample(a, g)])
    for net in range(N):
        rows = torch.cat((a[net], torch.ones(B, 1)), 1)
        torch.testing.assert_close(
            bench.kfac.layers[0].a[net], sum(torch.outer(x, x) for x in rows) / B
        )
        torch.testing.assert_close(
            bench.kfac.layers[0].g[net], sum(torch.outer(x, x) for x in g[net]) / B
        )


@pytest.mark.parametrize("shared", [False, True])
def test_the_gradient_is_solved_by_the_damped_dense_matrix(shared: bool) -> None:
    bench = Bench(spec(), shares_input=shared)
    bench.kfac.observe([sample(shared=shared)])
    bench.flat.copy_(draw(len(bench.flat), seed=3))
    before = bench.joined()
    known = bench.flat[-2:].clone()
    assert bench.kfac.precondition(0.25) == 1.0
    for net in range(N):
        fisher = bench.dense(net) + DAMPING * eye(OUT * (IN + 1))
        expected = torch.linalg.solve(fisher, before[net])
        torch.testing.assert_close(bench.joined()[net], expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(bench.flat[-2:], known / (2.0 + DAMPING))


def test_factored_damping_follows_the_ratio_of_mean_eigenvalues() -> None:
    bench = Bench(spec(factored_damping=True))
    bench.kfac.observe([sample()])
    bench.flat.copy_(draw(len(bench.flat), seed=3))
    before = bench.joined()
    bench.kfac.precondition(0.25)
    for net in range(N):
        a, g = bench.kfac.layers[0].a[net], bench.kfac.layers[0].g[net]
        ratio = math.sqrt((a.trace() / (IN + 1)) / (g.trace() / OUT))
        damped_a = a + ratio * math.sqrt(DAMPING) * eye(IN + 1)
        damped_g = g + math.sqrt(DAMPING) / ratio * eye(OUT)
        expected = torch.linalg.solve(torch.kron(damped_g, damped_a), before[net])
        torch.testing.assert_close(bench.joined()[net], expected, rtol=1e-9, atol=1e-12)


def quadratic_form(bench: Bench, step: Tensor, known: Tensor) -> float:
    total = (2.0 + DAMPING) * known.square().sum()
    for net in range(N):
        total += step[net] @ (bench.dense(net) @ step[net] + DAMPING * step[net])
    return total.item()


@pytest.mark.parametrize("cold_iter", [0, 1])
def test_a_step_that_is_too_long_is_cut_to_the_trust_region(cold_iter: int) -> None:
    bench = Bench(spec(clip_kl=1e-3, cold_iter=cold_iter))
    bench.kfac.observe([sample()])
    bench.flat.copy_(draw(len(bench.flat), seed=3))
    before = bench.flat.clone()
    assert 0.0 < bench.kfac.precondition(0.25) < 1.0
    step = 0.25 * bench.joined()
    assert quadratic_form(bench, step, 0.25 * bench.flat[-2:]) == pytest.approx(1e-3)
    if cold_iter:
        cosine = torch.cosine_similarity(before, bench.flat, dim=0).item()
        assert cosine == pytest.approx(1.0)


def test_while_it_clips_the_step_does_not_see_the_loss_scale() -> None:
    steps, nus = [], []
    for scale in (1.0, 7.0):
        bench = Bench(spec(clip_kl=1e-3))
        bench.kfac.observe([sample()])
        bench.flat.copy_(scale * draw(len(bench.flat), seed=3))
        nus.append(bench.kfac.precondition(0.25))
        steps.append(bench.flat.clone())
    torch.testing.assert_close(steps[0], steps[1])
    assert nus[0] == pytest.approx(7.0 * nus[1])


@pytest.mark.parametrize("cold_iter", [0, 1])
@pytest.mark.parametrize(("gradient", "rate"), [(0.0, 0.25), (1.0, 0.0)])
def test_nothing_to_bound_is_left_alone(gradient: float, rate: float, cold_iter: int) -> None:
    bench = Bench(spec(clip_kl=1e-3, cold_iter=cold_iter))
    bench.kfac.observe([sample()])
    bench.flat.fill_(gradient)
    assert bench.kfac.precondition(rate) == 1.0
    assert bench.flat.isfinite().all()
    assert bool(bench.flat.any()) == bool(gradient)


def test_early_batches_weigh_the_same_and_later_ones_decay() -> None:
    bench = Bench(spec(stats_accum_iter=2, stats_decay=0.9))
    second_moments = []
    for seed in range(3):
        s = sample(seed)
        bench.kfac.observe([s])
        second_moments.append(s.a.mT @ s.a / B)
    one, two, three = second_moments
    expected = 0.9 * (one + two) / 2 + 0.1 * three
    torch.testing.assert_close(bench.kfac.layers[0].a[:, :IN, :IN], expected)


def test_the_inverse_is_refreshed_every_kfac_update_steps() -> None:
    bench = Bench(spec(kfac_update=2))
    results = []
    for seed in range(3):
        bench.kfac.observe([sample(seed)])
        bench.flat.copy_(draw(len(bench.flat), seed=3))
        bench.kfac.precondition(0.25)
        results.append(bench.flat.clone())
    assert torch.equal(results[0], results[1])
    assert not torch.allclose(results[1], results[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("factored", [False, True])
def test_ill_conditioned_factors_do_not_fail(
    dtype: torch.dtype, scale: float, factored: bool
) -> None:
    flat = torch.zeros(64 * 33, dtype=dtype)
    weight, bias = flat.split([64 * 32, 64])
    layer = LinearGradient(weight.view(1, 64, 32), bias.view(1, 64))
    kfac = KFAC(spec(factored_damping=factored), flat, FisherBlocks([layer]))
    base = draw(1, 20, 8)  # fewer samples than features
    twins, constant = torch.cat((base, base), 2), torch.full((1, 20, 16), 3.0)
    a = scale * torch.cat((twins, constant), 2)  # duplicates, and copies of the bias's 1
    g = torch.zeros(1, 20, 64)
    g[:, :, ::2] = draw(1, 20, 32) * torch.logspace(-8, 2, 32)  # half of the units are dead
    for _ in range(5):
        kfac.observe([LayerSample(a.to(dtype), g.to(dtype))])
        flat.copy_(draw(len(flat), seed=3))
        kfac.precondition(0.25)
        assert flat.isfinite().all()


@pytest.mark.parametrize("factored", [False, True])
def test_a_fisher_matrix_of_zero_leaves_the_damping(factored: bool) -> None:
    bench = Bench(spec(factored_damping=factored))
    bench.kfac.observe([sample()._replace(g=torch.zeros(N, B, OUT, dtype=torch.float64))])
    bench.flat.fill_(1.0)
    bench.kfac.precondition(0.25)
    assert bench.flat.isfinite().all()
    if not factored:
        torch.testing.assert_close(bench.layer.bias, torch.full((N, OUT), 1 / DAMPING).double())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_divergence(value: float) -> None:
    bench = Bench(spec())
    bench.kfac.observe([sample()._replace(a=torch.full((N, B, IN), value, dtype=torch.float64))])
    with pytest.raises(DivergedError, match="factor"):
        bench.kfac.precondition(0.25)
    bench = Bench(spec())
    bench.kfac.observe([sample()])
    bench.flat.fill_(value)
    with pytest.raises(DivergedError, match="gradient"):
        bench.kfac.precondition(0.25)


def test_a_decomposition_that_fails_is_tried_again_with_more_on_the_diagonal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    eigh, tried = torch.linalg.eigh, []

    def failing(matrix: Tensor) -> Any:
        tried.append(matrix.diagonal(dim1=1, dim2=2).sum().item())
        if len(tried) in (1, 2):
            raise torch.linalg.LinAlgError("did not converge")
        return eigh(matrix)

    results = []
    for patched in (False, True):
        if patched:
            monkeypatch.setattr(torch.linalg, "eigh", failing)
        bench = Bench(spec())
        bench.kfac.observe([sample()])
        bench.flat.copy_(draw(len(bench.flat), seed=3))
        bench.kfac.precondition(0.25)
        results.append(bench.flat.clone())
    assert tried[0] < tried[1] < tried[2]
    torch.testing.assert_close(results[0], results[1], rtol=1e-6, atol=1e-6)

    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: failing(tried.clear() or matrix))
    with pytest.raises(DivergedError, match="cannot be decomposed"):
        bench.kfac.precondition(0.25)


def test_a_saved_state_goes_on_where_it_was() -> None:
    one, two = (Bench(spec(kfac_update=3, stats_accum_iter=2)) for _ in range(2))
    for step in range(6):
        if step == 2:
            two.kfac.load_state_dict(one.kfac.state_dict())
        for bench in (one, two) if step >= 2 else (one,):
            bench.kfac.observe([sample(step)])
            bench.flat.copy_(draw(len(bench.flat), seed=step))
            bench.kfac.precondition(0.25)
    assert torch.equal(one.flat, two.flat)
