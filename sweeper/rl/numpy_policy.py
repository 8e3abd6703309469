"""The ActorCritic without autograd: numpy, on the same memory, its gradient written out.

At the sizes that control problems use, an update costs calls, not arithmetic. A minibatch of
64 through two 64x64 networks takes about twenty BLAS and elementwise calls here and several
hundred dispatches in an autograd framework. Nothing is allocated in a step: buffers are made
once a batch size. `tests/rl/test_numpy_policy.py` holds every number against torch's autograd.

Heads work on transposed outputs [K, B]: reductions over the few actions then run along the
long, contiguous axis.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sweeper.optim.kfac import LayerSample
from sweeper.rl.distributions import (
    LOG_2PI,
    Bernoulli,
    DiagGaussian,
    Distribution,
    MultiCategorical,
)
from sweeper.rl.policy import ActorCritic
from sweeper.rl.spec import MLPSpec

F32 = NDArray[np.float32]
CHUNK = 1024
"""Rows evaluated at once after a rollout: large enough for BLAS, small enough for the cache."""


class _Buffers:
    """Activations and their gradients for batches of one size."""

    def __init__(
        self, batch: int, n: int, hidden: tuple[int, ...], n_outputs: int, dtype: Any
    ) -> None:
        self.hidden = [np.empty((n, batch, width), dtype) for width in hidden]
        self.d_hidden = [np.empty((n, batch, width), dtype) for width in hidden]
        self.scratch = [np.empty((n, batch, width), dtype) for width in hidden]
        self.outputs = np.empty((n_outputs, batch), dtype)
        self.value = np.empty(batch, dtype)
        self.ones = np.ones((1, batch), dtype)


class NumpyPolicy:
    """Evaluator and gradient of an ActorCritic; sees its weights change under it."""

    def __init__(self, policy: ActorCritic) -> None:
        assert isinstance(policy.network, MLPSpec)
        self._distribution = policy.distribution
        self._relu = policy.network.activation == "relu"
        self._hidden = policy.network.hidden
        self._shared = policy.network.shared
        weights = policy.weights(policy.flat.detach())
        assert policy.flat.grad is not None
        gradient = policy.weights(policy.flat.grad)
        self._layers = [(w.numpy(), b.numpy()[:, None]) for w, b in weights.hidden]
        self._layers_t = [(w.transpose(0, 2, 1), b) for w, b in self._layers]
        self._d_layers = [(w.numpy(), b.numpy()[:, None]) for w, b in gradient.hidden]
        self._policy_weight = weights.policy_weight.numpy()
        self._policy_bias = weights.policy_bias.numpy()
        self._policy_bias_t = self._policy_bias[:, None]
        self._value_weight = weights.value_weight.numpy()
        self._value_bias = weights.value_bias.numpy()
        self._d_policy_weight = gradient.policy_weight.numpy()
        self._d_policy_bias = gradient.policy_bias.numpy()
        self._d_value_weight = gradient.value_weight.numpy()
        self._d_value_bias = gradient.value_bias.numpy()
        self._log_std = _numpy(weights.log_std)
        self._head = _head_for(policy.distribution, self._log_std, _numpy(gradient.log_std))
        self._dtype = self._policy_bias.dtype
        self._buffers: dict[int, _Buffers] = {}

    def outputs(self, features: F32) -> tuple[F32, F32 | None]:
        """features [B, D] -> policy outputs [B, K] and log_std, for acting."""
        outputs: F32 = np.dot(self._trunk(features, 0), self._policy_weight.T)
        outputs += self._policy_bias
        return outputs, self._log_std

    def values(self, features: F32) -> F32:
        """Values [B]."""
        values = np.empty(len(features), self._dtype)
        for at in range(0, len(features), CHUNK):
            chunk = slice(at, at + CHUNK)
            np.dot(self._trunk(features[chunk], -1), self._value_weight[0], out=values[chunk])
        values += self._value_bias
        return values

    def evaluate(self, features: F32, action: NDArray[np.generic]) -> tuple[F32, F32]:
        """Log-probabilities [B] of `action` [B, A] and values [B]."""
        log_prob, value = np.empty((2, len(features)), self._dtype)
        for at in range(0, len(features), CHUNK):
            chunk = slice(at, at + CHUNK)
            log_prob[chunk], _, value[chunk] = self.forward(features[chunk], action[chunk])
        return log_prob, value

    def forward(self, features: F32, action: NDArray[np.generic]) -> tuple[F32, F32, F32]:
        """Log-probabilities, entropies and values, [B] each; `backward` refers to this call."""
        buffers = self._buffers_for(len(features))
        h: F32 = features
        for (weight_t, bias), out in zip(self._layers_t, buffers.hidden, strict=True):
            np.matmul(h, weight_t, out=out)
            np.add(out, bias, out=out)
            self._activate(out)
            h = out
        outputs = np.matmul(self._policy_weight, h[0].T, out=buffers.outputs)
        np.add(outputs, self._policy_bias_t, out=outputs)
        value = np.dot(h[-1], self._value_weight[0], out=buffers.value)
        np.add(value, self._value_bias, out=value)
        self._features = features
        log_prob, entropy = self._head.forward(outputs, action.T)
        return log_prob, entropy, value

    def backward(self, d_log_prob: F32, d_entropy: float, d_value: F32) -> None:
        """Write the gradient of a loss L into the policy's `flat.grad`.

        `d_log_prob` [B] and `d_value` [B] are dL/dlog_prob and dL/dvalue of each sample,
        `d_entropy` is dL/dentropy of any one sample.
        """
        buffers = self._buffers_for(len(d_value))
        d_outputs = self._head.backward(d_log_prob, d_entropy)
        last = buffers.hidden[-1]
        np.matmul(d_outputs, last[0], out=self._d_policy_weight)
        np.sum(d_outputs, axis=1, out=self._d_policy_bias)
        np.matmul(d_value[None], last[-1], out=self._d_value_weight)
        np.sum(d_value, keepdims=True, out=self._d_value_bias)
        self._backpropagate(d_outputs, d_value, buffers)
        below = self._features
        for (d_weight, d_bias), h, d_s in zip(
            self._d_layers, buffers.hidden, buffers.d_hidden, strict=True
        ):
            np.matmul(d_s.transpose(0, 2, 1), below, out=d_weight)
            np.matmul(buffers.ones, d_s, out=d_bias)
            below = h

    def fisher(self, noise: F32, d_value: F32) -> list[LayerSample]:
        """What K-FAC needs of the last `forward`, each layer's inputs and output gradients.

        The loss of a sample is minus the log-probability of an action drawn with its row of
        `noise` [B, K], plus a critic's whose gradient is `d_value` [B]. Call it before
        `backward`; the arrays are buffers that both write to.
        """
        buffers = self._buffers_for(len(d_value))
        d_outputs = self._head.fisher(noise.T)
        self._backpropagate(d_outputs, d_value, buffers)
        last = buffers.hidden[-1]
        inputs = [self._features[None], *buffers.hidden[:-1], last[:1], last[-1:]]
        gradients = [*buffers.d_hidden, d_outputs.T[None], d_value[None, :, None]]
        return [
            LayerSample(torch.from_numpy(a), torch.from_numpy(g))
            for a, g in zip(inputs, gradients, strict=True)
        ]

    def _backpropagate(self, d_outputs: F32, d_value: F32, buffers: _Buffers) -> None:
        """Fill `d_hidden` with the gradients of the hidden layers before their activations."""
        d_last = buffers.d_hidden[-1]
        np.matmul(d_outputs.T, self._policy_weight, out=d_last[0])
        if self._shared:
            d_last[0] += d_value[:, None] * self._value_weight
        else:
            np.multiply(d_value[:, None], self._value_weight, out=d_last[1])
        for i in range(len(self._layers) - 1, -1, -1):
            h, d_h, scratch = buffers.hidden[i], buffers.d_hidden[i], buffers.scratch[i]
            if self._relu:
                np.greater(h, 0, out=scratch)
                np.multiply(d_h, scratch, out=d_h)
            else:  # d tanh(x) = 1 - tanh(x)^2
                np.multiply(h, h, out=scratch)
                np.multiply(scratch, d_h, out=scratch)
                np.subtract(d_h, scratch, out=d_h)
            if i:
                np.matmul(d_h, self._layers[i][0], out=buffers.d_hidden[i - 1])

    def _trunk(self, features: F32, net: int) -> F32:
        """Last hidden activations [B, H] of the policy (0) or value (-1) network."""
        h = features
        for weight_t, bias in self._layers_t:
            h = np.dot(h, weight_t[net])
            h += bias[net]
            self._activate(h)
        return h

    def _activate(self, x: F32) -> None:
        if self._relu:
            np.maximum(x, 0, out=x)
        else:
            np.tanh(x, out=x)

    def _buffers_for(self, batch: int) -> _Buffers:
        buffers = self._buffers.get(batch)
        if buffers is None:
            n, n_outputs = 1 if self._shared else 2, self._distribution.n_outputs
            buffers = _Buffers(batch, n, self._hidden, n_outputs, self._dtype)
            self._buffers[batch] = buffers
        return buffers


class _Head(Protocol):
    def forward(self, outputs: F32, action: NDArray[Any]) -> tuple[F32, F32]:
        """outputs [K, B], action [A, B] -> log-probability [B], entropy [B]."""
        ...

    def backward(self, d_log_prob: F32, d_entropy: float) -> F32:
        """dL/doutputs [K, B] of the last forward."""
        ...

    def fisher(self, noise: F32) -> F32:
        """d(-log_prob)/doutputs [K, B] of actions drawn with `noise` [K, B], after forward and
        before backward."""
        ...


class _GaussianHead:
    def __init__(self, log_std: F32, d_log_std: F32) -> None:
        self._log_std, self._d_log_std = log_std, d_log_std

    def forward(self, outputs: F32, action: NDArray[Any]) -> tuple[F32, F32]:
        self._inverse_std = np.exp(-self._log_std)[:, None]
        self._z = (action - outputs) * self._inverse_std
        self._z_squared = self._z * self._z
        log_std = self._log_std.sum()
        constant = log_std + 0.5 * LOG_2PI * len(outputs)
        log_prob: F32 = -0.5 * self._z_squared.sum(0) - constant
        return log_prob, np.full_like(log_prob, constant + 0.5 * len(outputs))

    def backward(self, d_log_prob: F32, d_entropy: float) -> F32:
        # d log_prob / d mean = z / std;  d log_prob / d log_std = z^2 - 1;  d H / d log_std = 1
        np.matmul(self._z_squared - 1.0, d_log_prob, out=self._d_log_std)
        self._d_log_std += d_entropy * len(d_log_prob)
        self._z *= self._inverse_std
        self._z *= d_log_prob
        return self._z

    def fisher(self, noise: F32) -> F32:
        # action = mean + std noise, so z = noise
        d_mean: F32 = noise * -self._inverse_std
        return d_mean


class _MultiCategoricalHead:
    def __init__(self, distribution: MultiCategorical) -> None:
        self._slices = distribution.slices
        self._indices = [np.arange(n)[:, None] for n in distribution.sizes]

    def forward(self, outputs: F32, action: NDArray[Any]) -> tuple[F32, F32]:
        self._outputs = outputs
        self._terms = []
        log_prob = entropy = np.float32(0.0)
        for row, (s, index) in enumerate(zip(self._slices, self._indices, strict=True)):
            log_p = outputs[s] - outputs[s].max(0)
            p = np.exp(log_p)
            total = p.sum(0)
            log_p -= np.log(total)
            p /= total
            chosen = index == action[row]
            h = -(p * log_p).sum(0)
            log_prob = log_prob + (log_p * chosen).sum(0)
            entropy = entropy + h
            self._terms.append((p, log_p, chosen, h))
        return log_prob, entropy  # type: ignore[return-value]  # arrays after the first slice

    def backward(self, d_log_prob: F32, d_entropy: float) -> F32:
        # d log_prob / d logits = chosen - p;  d H / d logits = -p (log p + H)
        for s, (p, log_p, chosen, h) in zip(self._slices, self._terms, strict=True):
            d_logits = np.subtract(chosen, p, out=self._outputs[s])
            d_logits *= d_log_prob
            if d_entropy:
                log_p += h
                log_p *= p
                log_p *= d_entropy
                d_logits -= log_p
        return self._outputs

    def fisher(self, noise: F32) -> F32:
        d_outputs = np.empty_like(self._outputs)
        scores = self._outputs + noise
        for s, index, (p, *_) in zip(self._slices, self._indices, self._terms, strict=True):
            np.subtract(p, index == scores[s].argmax(0), out=d_outputs[s])
        return d_outputs


class _BernoulliHead:
    def forward(self, outputs: F32, action: NDArray[Any]) -> tuple[F32, F32]:
        self._outputs, self._action = outputs, action
        self._p: F32 = np.reciprocal(1 + np.exp(-outputs))
        softplus = np.logaddexp(np.float32(0.0), outputs)
        log_prob: F32 = (action * outputs - softplus).sum(0)
        entropy: F32 = (softplus - self._p * outputs).sum(0)
        return log_prob, entropy

    def backward(self, d_log_prob: F32, d_entropy: float) -> F32:
        # d log_prob / d logit = action - p;  d H / d logit = -logit p (1 - p)
        d_logits: F32 = self._outputs * self._p * (self._p - 1)
        d_logits *= d_entropy
        d_logits += (self._action - self._p) * d_log_prob
        return d_logits

    def fisher(self, noise: F32) -> F32:
        d_logits: F32 = self._p - (self._outputs + noise > 0)
        return d_logits


def _head_for(distribution: Distribution, log_std: F32 | None, d_log_std: F32 | None) -> _Head:
    match distribution:
        case DiagGaussian():
            assert log_std is not None
            assert d_log_std is not None
            return _GaussianHead(log_std, d_log_std)
        case MultiCategorical():
            return _MultiCategoricalHead(distribution)
        case Bernoulli():
            return _BernoulliHead()
        case _:
            raise TypeError(f"no gradient is written out for {type(distribution).__name__}")


def _numpy(tensor: Tensor | None) -> F32 | None:
    return None if tensor is None else tensor.numpy()
