"""K-FAC: the natural gradient with a Kronecker-factored Fisher matrix, in a trust region.

Martens & Grosse 2015 (arXiv:1503.05671), sections 2 to 4; the trust region is that of ACKTR
(Wu et al. 2017, arXiv:1708.05144, section 3.2).

::

    n        linear layers of one shape, side by side: their matrices are batched; a convolution
             is one, on each patch of its images
    B        samples of a Fisher pass
    a        [n, B, I + 1]   a layer's inputs, a 1 appended for the bias; [1, B, I + 1] if shared
    s        [n, B, O]       its outputs before the nonlinearity: s = a [W | b]^T
    g        [n, B, O]       d(Fisher loss of the sample) / ds
    A        [n, I + 1, I + 1]   mean of a a^T, averaged over passes
    G        [n, O, O]       mean of g g^T, averaged over passes
    V        [n, O, I + 1]   gradient of the loss that is minimized with respect to [W | b]
    gamma    damping
    F        the Fisher matrix: block diagonal over layers, A (x) G each

    F V            = G V A
    (F + gamma)^-1 V = Q_G [(Q_G^T V Q_A) / (l_G l_A^T + gamma)] Q_A^T,   A = Q_A l_A Q_A^T, ...
    nu             = min(1, sqrt(clip_kl / (rate^2 <V, (F + gamma)^-1 V>)))

The Fisher loss is the negative log-likelihood of targets that are drawn from the model itself;
drawing them is the caller's (`sweeper.rl.fisher`). Statistics are kept in the gradient's type;
they are decomposed in float64, where factors of float32 data lose no eigenvalue to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, unfold

from sweeper.core.errors import DivergedError
from sweeper.optim.spec import KFACSpec

JITTER = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)
"""Added to a factor's diagonal, times its mean, until it can be decomposed."""
PATCHED = 64
"""Images cut into patches at once, which take as many times the memory as patches overlap."""


class LinearGradient(NamedTuple):
    """Where the gradients of n linear layers are: views of the flat gradient."""

    weight: Tensor
    """[n, O, I]"""
    bias: Tensor
    """[n, O]"""
    shares_input: bool = False
    """Whether all n read the same input, so that one A serves them."""


class KnownFisher(NamedTuple):
    """Parameters whose Fisher matrix is a known multiple of the identity."""

    gradient: Tensor
    """A view of the flat gradient."""
    fisher: float


class FisherBlocks(NamedTuple):
    """The parameters, as K-FAC divides them."""

    layers: Sequence[LinearGradient]
    known: Sequence[KnownFisher] = ()


class LayerSample(NamedTuple):
    """A Fisher pass as one `LinearGradient` saw it."""

    a: Tensor
    """[n, B, I], or [1, B, I] where the input is shared; without the 1."""
    g: Tensor
    """[n, B, O] gradients of each sample's own loss, not of the mean."""

    def moments(self) -> tuple[Tensor, Tensor]:
        """A and G of this pass."""
        a, g = (
            torch.matmul(x.mT, x).div_(x.shape[1]) for x in (pad(self.a, (0, 1), value=1.0), self.g)
        )
        return a, g


class ConvolutionSample(NamedTuple):
    """A Fisher pass as a convolution saw it: a linear layer on each of the patches t.

    KFC (Grosse & Martens 2016, arXiv:1602.01407, section 3)::

        F = E[sum_tu a_t a_u^T (x) g_t g_u^T]  ~  E[sum_t a_t a_t^T] (x) E[mean_t g_t g_t^T]

    where gradients at two places are taken to be uncorrelated, and inputs and gradients to be
    distributed alike at all. So A sums over places and G averages, as in the paper; how the
    number of places is shared out between the two changes neither F nor its damped inverse.
    """

    images: Tensor
    """[n, B, C, H, W], or [1, B, C, H, W] where the input is shared."""
    g: Tensor
    """[n, B, O, H', W'] gradients of each sample's own loss."""
    kernel: int
    stride: int
    padding: int = 0

    def moments(self) -> tuple[Tensor, Tensor]:
        """A and G of this pass."""
        n, batch = self.images.shape[:2]
        a = torch.zeros((), dtype=self.images.dtype, device=self.images.device)
        for images in torch.split(self.images, PATCHED, dim=1):
            patches = unfold(
                images.flatten(0, 1), self.kernel, padding=self.padding, stride=self.stride
            )
            columns = pad(patches, (0, 0, 0, 1), value=1.0)
            columns = columns.view(n, -1, *columns.shape[1:])
            columns = columns.transpose(1, 2).flatten(2)  # [n, I + 1, B T]
            a = a + columns @ columns.mT
        g = self.g.flatten(3).transpose(1, 2).flatten(2)  # [n, O, B T]
        return a / batch, (g @ g.mT) / g.shape[2]


class KFAC:
    """Preconditions a gradient in place: `observe` a Fisher pass, then `precondition`."""

    def __init__(self, spec: KFACSpec, gradient: Tensor, blocks: FisherBlocks) -> None:
        """`gradient` is the flat one, of which `blocks` are views."""
        self.spec = spec
        self._gradient = gradient
        self.layers = [KroneckerLayer(layer) for layer in blocks.layers]
        self._known = blocks.known
        self._passes = 0
        self._steps = 0

    def observe(self, samples: Sequence[LayerSample | ConvolutionSample]) -> None:
        """Average the factors of one Fisher pass, a sample a layer, into the running ones."""
        self._passes += 1
        early = self._passes <= self.spec.stats_accum_iter
        share = 1.0 / self._passes if early else 1.0 - self.spec.stats_decay
        for layer, sample in zip(self.layers, samples, strict=True):
            layer.observe(sample, share)

    def precondition(self, learning_rate: float) -> float:
        """Replace the gradient V by nu (F + gamma)^-1 V, for a step of `learning_rate` along it;
        returns nu.

        The first `cold_iter` steps keep the direction of V: their nu bounds
        rate^2 <V, (F + gamma) V>. Raises DivergedError when anything is not finite.
        """
        assert self._passes, "no Fisher pass was observed"
        spec, gradient = self.spec, self._gradient
        if self._steps < spec.cold_iter:
            quadratic = spec.damping * torch.dot(gradient, gradient).item()
            quadratic += sum(layer.curvature() for layer in self.layers)
            for part, fisher in self._known:
                quadratic += fisher * part.square().sum().item()
        else:
            if (self._steps - spec.cold_iter) % spec.kfac_update == 0:
                for layer in self.layers:
                    layer.decompose(spec.damping, factored=spec.factored_damping)
            quadratic = sum(layer.precondition() for layer in self.layers)
            for part, fisher in self._known:
                quadratic += part.square().sum().item() / (fisher + spec.damping)
                part.div_(fisher + spec.damping)
        self._steps += 1
        if not math.isfinite(quadratic):
            raise DivergedError("K-FAC met a gradient that is NaN or infinite")
        nu = trust_region(quadratic, learning_rate=learning_rate, clip_kl=spec.clip_kl)
        gradient.mul_(nu)
        return nu

    def state_dict(self) -> dict[str, Any]:
        """Everything that later steps depend on, copied."""
        layers = [layer.state_dict() for layer in self.layers]
        return {"passes": self._passes, "steps": self._steps, "layers": layers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._passes, self._steps = state["passes"], state["steps"]
        for layer, saved in zip(self.layers, state["layers"], strict=True):
            layer.load_state_dict(saved)


class KroneckerLayer:
    """Factors of n linear layers of one shape, and their damped inverse."""

    def __init__(self, gradient: LinearGradient) -> None:
        self._gradient = gradient
        n, n_out, n_in = gradient.weight.shape
        new = gradient.weight.new_zeros
        self.a = new((1 if gradient.shares_input else n, n_in + 1, n_in + 1))
        self.g = new((n, n_out, n_out))
        self._a_basis, self._g_basis = torch.zeros_like(self.a), torch.zeros_like(self.g)
        self._inverse = new((n, n_out, n_in + 1))

    def observe(self, sample: LayerSample | ConvolutionSample, share: float) -> None:
        """A and G, moved towards those of one pass by `share` of the way."""
        for factor, moment in zip((self.a, self.g), sample.moments(), strict=True):
            factor.lerp_(moment, share)

    def decompose(self, damping: float, *, factored: bool) -> None:
        """Compute the bases and (in them) the damped inverse that `precondition` uses."""
        a_values, a_basis = _eigh(self.a)
        g_values, g_basis = _eigh(self.g)
        a_values, g_values = a_values[:, None, :], g_values[:, :, None]
        if factored:  # section 6.3: gamma is shared out by the factors' mean eigenvalues
            a_mean, g_mean = a_values.mean(2, keepdim=True), g_values.mean(1, keepdim=True)
            ratio = torch.where(g_mean > 0, a_mean / g_mean, torch.ones_like(g_mean)).sqrt()
            root = math.sqrt(damping)
            fisher = (a_values + root * ratio) * (g_values + root / ratio)
        else:
            fisher = a_values * g_values + damping
        self._a_basis.copy_(a_basis)
        self._g_basis.copy_(g_basis)
        self._inverse.copy_(fisher.reciprocal())

    def precondition(self) -> float:
        """Write (F + gamma)^-1 V over V; returns <V, (F + gamma)^-1 V>, never negative."""
        rotated = self._g_basis.mT @ self._joined() @ self._a_basis
        scaled = rotated * self._inverse
        step = self._g_basis @ scaled @ self._a_basis.mT
        self._gradient.weight.copy_(step[:, :, :-1])
        self._gradient.bias.copy_(step[:, :, -1])
        return torch.dot(rotated.flatten(), scaled.flatten()).item()

    def curvature(self) -> float:
        """<V, F V>."""
        joined = self._joined()
        return (joined * (self.g @ joined @ self.a)).sum().item()

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all that is kept between steps."""
        return {name: tensor.clone() for name, tensor in self._kept().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        for name, tensor in self._kept().items():
            tensor.copy_(state[name])

    def _kept(self) -> dict[str, Tensor]:
        return {
            "a": self.a,
            "g": self.g,
            "a_basis": self._a_basis,
            "g_basis": self._g_basis,
            "inverse": self._inverse,
        }

    def _joined(self) -> Tensor:
        """V: [W | b]'s gradient."""
        return torch.cat((self._gradient.weight, self._gradient.bias[:, :, None]), 2)


def trust_region(quadratic: float, *, learning_rate: float, clip_kl: float) -> float:
    """nu = min(1, sqrt(clip_kl / (rate^2 quadratic))); 1 where there is nothing to bound."""
    size = learning_rate * learning_rate * quadratic
    return math.sqrt(clip_kl / size) if size > clip_kl else 1.0


def _eigh(factor: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues [n, D] >= 0 and eigenvectors [n, D, D] of positive semi-definite matrices
    [n, D, D], in float64."""
    matrix = factor.double()
    matrix = (matrix + matrix.mT) / 2.0
    if not matrix.isfinite().all():
        raise DivergedError("a Fisher factor of K-FAC is NaN or infinite")
    diagonal = matrix.diagonal(dim1=1, dim2=2)
    for jitter in JITTER:
        try:
            if jitter:
                diagonal += jitter * diagonal.mean(1, keepdim=True)
            values, basis = torch.linalg.eigh(matrix)
        # LAPACK gives up on some ill-conditioned matrices.
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # documented all the same
            continue
        if values.isfinite().all() and basis.isfinite().all():
            return values.clamp_min_(0.0), basis
    raise DivergedError("a Fisher factor of K-FAC cannot be decomposed")
