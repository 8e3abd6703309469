"""Gaussian-process regression in numpy: what the surrogate and one of its searchers model by.

Notation: n points, d inputs in [0, 1]; x is [n, d], y is [n]. Covariance: Matern 5/2 with a
length scale for each input, plus independent noise (Rasmussen & Williams 2006, ch. 2, 4, 5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

Floats = NDArray[np.float64]

LENGTHS, NOISE = (0.1, 20.0), (1e-4, 2.0)
"""Bounds of the length scales, and of the noise's variance for y of variance 1."""


class GaussianProcess:
    """Fitted to (x, y) by its marginal likelihood, with weak priors on the length scales."""

    def __init__(self, x: Floats, y: Floats, *, steps: int = 60) -> None:
        self._x = x
        self._center, self._scale = float(y.mean()), float(y.std()) or 1.0
        self._y = (y - self._center) / self._scale
        n_inputs = x.shape[1]
        start = np.log(np.array([*np.ones(n_inputs), 0.1]))
        bounds = [*[tuple(np.log(LENGTHS))] * n_inputs, tuple(np.log(NOISE))]
        found = minimize(
            self._loss, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps}
        )
        self._lengths, self._noise = np.exp(found.x[:-1]), float(np.exp(found.x[-1]))
        self._factor = cho_factor(_matern(x, x, self._lengths) + self._noise * np.eye(len(x)))
        self._weights = cho_solve(self._factor, self._y)

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the function (without noise) at x, each [m]."""
        k = _matern(x, self._x, self._lengths)
        variance = 1.0 - np.einsum("mn,nm->m", k, cho_solve(self._factor, k.T))
        deviation = np.sqrt(np.maximum(variance, 1e-12))
        return self._center + self._scale * (k @ self._weights), self._scale * deviation

    def _loss(self, logs: Floats) -> float:
        """Negative log marginal likelihood, and a log-normal prior on each length scale."""
        lengths, noise = np.exp(logs[:-1]), np.exp(logs[-1])
        covariance = _matern(self._x, self._x, lengths) + noise * np.eye(len(self._x))
        factor, lower = cho_factor(covariance)
        fit = self._y @ cho_solve((factor, lower), self._y)
        prior = np.sum((logs[:-1] - np.log(1.0)) ** 2) / 2.0
        return float(fit / 2.0 + np.sum(np.log(np.diag(factor))) + prior)


def _matern(a: Floats, b: Floats, lengths: Floats) -> Floats:
    """[n, d], [m, d] -> [n, m]."""
    difference = (a[:, None, :] - b[None, :, :]) / lengths
    r = np.sqrt(5.0 * np.einsum("nmd,nmd->nm", difference, difference) + 1e-12)
    return np.asarray((1.0 + r + r * r / 3.0) * np.exp(-r))
