"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347).

Per minibatch of B transitions, with ratio = exp(log_prob - old log_prob)::

    loss = mean(-min(ratio * A, clip(ratio, 1 - c, 1 + c) * A))
         + value_coef * mean((V - R)^2) / 2
         - entropy_coef * mean(entropy)

`_autograd` is that, in torch. `_derived` writes out its gradient with respect to the three
things that the network computes for each sample; `NumpyPolicy` carries it on to the weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sweeper.core.clock import Deadline
from sweeper.core.errors import DivergedError
from sweeper.core.timing import PhaseTimer
from sweeper.optim.build import Optimizer, Step
from sweeper.optim.schedules import multiplier
from sweeper.rl.fisher import FisherPass
from sweeper.rl.learner import UpdateStatistics, explained_variance, normalized
from sweeper.rl.numpy_policy import NumpyPolicy
from sweeper.rl.policy import ActorCritic, Evaluator
from sweeper.rl.rollout import Batch, Rollout, build_batch
from sweeper.rl.spec import PPOSpec

F32 = NDArray[np.float32]


class _Losses(NamedTuple):
    policy_loss: float
    value_loss: float
    entropy: float
    approx_kl: float
    clip_fraction: float


class PPO:
    """PPO; see `Algorithm`."""

    def __init__(
        self,
        spec: PPOSpec,
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
        self._rng = np.random.default_rng(seed)
        self._timer = timer

    def update(self, rollout: Rollout, deadline: Deadline) -> UpdateStatistics:
        """`n_epochs` passes over the rollout in `n_minibatches` shuffled parts."""
        spec, timer = self._spec, self._timer
        progress = deadline.progress
        clip = spec.clip_range * multiplier(spec.clip_range_schedule, progress)
        self.optimizer.set_progress(progress)
        # What overflows is not finite, and is looked for at the end.
        with timer("gradient"), np.errstate(over="ignore", invalid="ignore"):
            batch = build_batch(
                rollout, self._evaluator, gamma=spec.gamma, gae_lambda=spec.gae_lambda
            )
            size = len(batch.value)
            minibatch_size = size // spec.n_minibatches
            losses: list[_Losses] = []
            steps: list[Step] = []
            for epoch in range(spec.n_epochs):
                losses.clear()
                shuffled = batch.take(self._rng.permutation(size))
                watched = spec.target_kl is not None or epoch == spec.n_epochs - 1
                for start in range(0, size, minibatch_size):
                    minibatch = shuffled.slice(start, start + minibatch_size)
                    minibatch_losses = self._gradient(minibatch, clip, watched)
                    with timer("optimizer"):
                        steps.append(self.optimizer.step())
                        self._policy.synchronize()
                    if minibatch_losses is not None:
                        losses.append(minibatch_losses)
                    if deadline.out_of_time:
                        break
                if deadline.out_of_time or self._moved_too_far(losses):
                    break
            self._check_finite(steps)
            return self._statistics(batch, progress, losses, steps)

    def _gradient(self, batch: Batch, clip: float, watched: bool) -> _Losses | None:
        """Write the loss's gradient into `policy.flat.grad`; losses only if `watched`."""
        if self._spec.normalize_advantage:
            batch = batch._replace(advantage=normalized(batch.advantage))
        if isinstance(self._evaluator, NumpyPolicy):
            return self._derived(self._evaluator, batch, clip, watched)
        return self._autograd(batch, clip)

    def _derived(
        self, network: NumpyPolicy, batch: Batch, clip: float, watched: bool
    ) -> _Losses | None:
        spec, size = self._spec, len(batch.value)
        log_prob, entropy, value = network.forward(batch.features, batch.action)
        self._observe(batch)
        log_ratio = log_prob - batch.log_prob
        ratio = np.exp(log_ratio)
        # The clipped branch is the minimum, and flat, where the ratio has gone past the
        # bound in the direction that the advantage rewards.
        outside = np.abs(ratio - 1.0) > clip
        flat = outside & ((ratio > 1.0) == (batch.advantage > 0.0))
        d_log_prob: F32 = ratio * batch.advantage
        d_log_prob *= ~flat
        d_log_prob *= -1.0 / size
        error = value - batch.returns
        d_value = error * (spec.value_coef / size)
        squared_error = error
        if spec.clip_range_value is not None:
            change = value - batch.value
            clipped = np.clip(change, -spec.clip_range_value, spec.clip_range_value)
            clipped_error = batch.value + clipped - batch.returns
            worse = np.abs(clipped_error) > np.abs(error)
            d_value *= ~worse | (clipped == change)
            squared_error = np.where(worse, clipped_error, error)
        network.backward(d_log_prob, -spec.entropy_coef / size, d_value)
        if not watched:
            return None
        gain = np.minimum(
            ratio * batch.advantage, np.clip(ratio, 1.0 - clip, 1.0 + clip) * batch.advantage
        )
        return _Losses(
            policy_loss=-float(gain.mean()),
            value_loss=0.5 * float(np.square(squared_error).mean()),
            entropy=float(entropy.mean()),
            approx_kl=float((ratio - 1.0 - log_ratio).mean()),
            clip_fraction=float(outside.mean()),
        )

    def _autograd(self, batch: Batch, clip: float) -> _Losses:
        spec, policy = self._spec, self._policy
        self._observe(batch)
        features, action, old_log_prob, old_value, advantage, returns = map(policy.tensor, batch)
        outputs, value, log_std = policy.forward(features)
        log_ratio = policy.distribution.log_prob(outputs, log_std, action) - old_log_prob
        ratio = log_ratio.exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
        squared_error = (value - returns).square()
        if spec.clip_range_value is not None:
            change = (value - old_value).clamp(-spec.clip_range_value, spec.clip_range_value)
            squared_error = torch.maximum(squared_error, (old_value + change - returns).square())
        value_loss = 0.5 * squared_error.mean()
        entropy = policy.distribution.entropy(outputs, log_std).mean()
        loss = -gain.mean() + spec.value_coef * value_loss - spec.entropy_coef * entropy
        assert policy.flat.grad is not None
        policy.flat.grad.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return _Losses(
            policy_loss=-gain.mean().item(),
            value_loss=value_loss.item(),
            entropy=entropy.item(),
            approx_kl=(ratio - 1 - log_ratio).mean().item(),
            clip_fraction=((ratio - 1).abs() > clip).float().mean().item(),
        )

    def _observe(self, batch: Batch) -> None:
        """Show K-FAC, if it is used, the Fisher matrix at these observations."""
        if self._fisher is not None:
            with self._timer("optimizer"):
                self._fisher(batch.features)

    def _moved_too_far(self, losses: list[_Losses]) -> bool:
        target = self._spec.target_kl
        if target is None or not losses:
            return False
        return sum(part.approx_kl for part in losses) / len(losses) > 1.5 * target

    def _check_finite(self, steps: list[Step]) -> None:
        finite = all(math.isfinite(step.grad_norm) for step in steps)
        if not (finite and self._policy.flat.isfinite().all()):
            raise DivergedError("the gradient or the parameters are NaN or infinite")

    def _statistics(
        self, batch: Batch, progress: float, losses: list[_Losses], steps: list[Step]
    ) -> UpdateStatistics:
        means = np.mean(losses, axis=0).tolist() if losses else [None] * len(_Losses._fields)
        policy_loss, value_loss, entropy, approx_kl, clip_fraction = means
        nus = [step.kfac_nu for step in steps if step.kfac_nu is not None]
        return UpdateStatistics(
            learning_rate=self.optimizer.learning_rate(progress),
            approx_kl=approx_kl,
            clip_fraction=clip_fraction,
            entropy=entropy,
            policy_loss=policy_loss,
            value_loss=value_loss,
            explained_variance=explained_variance(batch.value, batch.returns),
            grad_norm=sum(step.grad_norm for step in steps) / len(steps),
            kfac_nu=sum(nus) / len(nus) if nus else None,
        )
