"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous.

One gradient a rollout, over all of its B transitions::

    loss = mean(-log_prob * A) + value_coef * mean((V - R)^2) / 2 - entropy_coef * mean(entropy)

Under a first-order optimizer that is A2C; under K-FAC it is ACKTR (Wu et al. 2017,
arXiv:1708.05144).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sweeper.core.clock import Deadline
from sweeper.core.errors import DivergedError
from sweeper.core.timing import PhaseTimer
from sweeper.optim.build import Optimizer
from sweeper.rl.fisher import FisherPass
from sweeper.rl.learner import UpdateStatistics, explained_variance, normalized
from sweeper.rl.numpy_policy import NumpyPolicy
from sweeper.rl.policy import ActorCritic, Evaluator
from sweeper.rl.rollout import Batch, Rollout, build_batch
from sweeper.rl.spec import A2CSpec, ACKTRSpec


class _Losses(NamedTuple):
    policy_loss: float
    value_loss: float
    entropy: float


class A2C:
    """A2C and ACKTR; see `Algorithm`."""

    def __init__(
        self,
        spec: A2CSpec | ACKTRSpec,
        policy: ActorCritic,
        evaluator: Evaluator,
        *,
        seed: int,
        timer: PhaseTimer,
    ) -> None:
        self._spec = spec
        self._policy = policy
        self._evaluator = evaluator
        self.optimizer = Optimizer(
            spec.optimizer,
            policy.flat,
            max_grad_norm=spec.max_grad_norm,
            blocks=policy.fisher_blocks(),
            matrices=policy.hidden_matrices(),
        )
        kfac = self.optimizer.kfac
        self._fisher = None if kfac is None else FisherPass(kfac, policy, evaluator, seed=seed)
        self._timer = timer

    def update(self, rollout: Rollout, deadline: Deadline) -> UpdateStatistics:
        """One step along the gradient of the whole rollout."""
        spec = self._spec
        progress = deadline.progress
        self.optimizer.set_progress(progress)
        # What overflows is not finite, and is looked for at the end.
        with self._timer("gradient"), np.errstate(over="ignore", invalid="ignore"):
            batch = build_batch(
                rollout, self._evaluator, gamma=spec.gamma, gae_lambda=spec.gae_lambda
            )
            variance = explained_variance(batch.value, batch.returns)
            if spec.normalize_advantage:
                batch = batch._replace(advantage=normalized(batch.advantage))
            if isinstance(self._evaluator, NumpyPolicy):
                losses = self._derived(self._evaluator, batch)
            else:
                losses = self._autograd(batch)
            with self._timer("optimizer"):
                step = self.optimizer.step()
                self._policy.synchronize()
            if not (math.isfinite(step.grad_norm) and self._policy.flat.isfinite().all()):
                raise DivergedError("the gradient or the parameters are NaN or infinite")
        return UpdateStatistics(
            learning_rate=self.optimizer.learning_rate(progress),
            entropy=losses.entropy,
            policy_loss=losses.policy_loss,
            value_loss=losses.value_loss,
            explained_variance=variance,
            grad_norm=step.grad_norm,
            kfac_nu=step.kfac_nu,
        )

    def _observe(self, batch: Batch) -> None:
        """Show K-FAC, if it is used, the Fisher matrix at these observations."""
        if self._fisher is not None:
            with self._timer("optimizer"):
                self._fisher(batch.features)

    def _derived(self, network: NumpyPolicy, batch: Batch) -> _Losses:
        spec, size = self._spec, len(batch.value)
        log_prob, entropy, value = network.forward(batch.features, batch.action)
        self._observe(batch)
        error = value - batch.returns
        losses = _Losses(
            policy_loss=-float((log_prob * batch.advantage).mean()),
            value_loss=0.5 * float((error * error).mean()),
            entropy=float(entropy.mean()),
        )
        network.backward(
            batch.advantage * (-1.0 / size),
            -spec.entropy_coef / size,
            error * (spec.value_coef / size),
        )
        return losses

    def _autograd(self, batch: Batch) -> _Losses:
        spec, policy = self._spec, self._policy
        self._observe(batch)
        features, action, _, _, advantage, returns = map(policy.tensor, batch)
        outputs, value, log_std = policy.forward(features)
        log_prob = policy.distribution.log_prob(outputs, log_std, action)
        policy_loss = -(log_prob * advantage).mean()
        value_loss = 0.5 * (value - returns).square().mean()
        entropy = policy.distribution.entropy(outputs, log_std).mean()
        loss = policy_loss + spec.value_coef * value_loss - spec.entropy_coef * entropy
        assert policy.flat.grad is not None
        policy.flat.grad.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return _Losses(policy_loss.item(), value_loss.item(), entropy.item())
