"""`ActorCriticLearner`: collect a rollout, update, again; PPO, A2C and ACKTR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.core.clock import Deadline
from sweeper.core.timing import PhaseTimer
from sweeper.envs.vec_env import Observation, VecEnv
from sweeper.rl.a2c import A2C
from sweeper.rl.device import device_for
from sweeper.rl.distributions import distribution_for
from sweeper.rl.features import features_for
from sweeper.rl.learner import Algorithm, UpdateStatistics
from sweeper.rl.numpy_policy import NumpyPolicy
from sweeper.rl.policy import ActorCritic, AutogradEvaluator, Evaluator
from sweeper.rl.ppo import PPO
from sweeper.rl.rollout import Collector
from sweeper.rl.spec import A2CSpec, ACKTRSpec, ActorCriticSpec, MLPSpec, PPOSpec


class ActorCriticLearner:
    """See `Learner`. Raises InputError, by name, for a space that it cannot serve."""

    def __init__(
        self, spec: ActorCriticSpec, vec_env: VecEnv, *, seed: int, timer: PhaseTimer
    ) -> None:
        self.distribution = distribution_for(vec_env.single_action_space)
        network = spec.network
        self.encode = features_for(vec_env.single_observation_space, network)
        device = device_for(network.device)
        self.policy = ActorCritic(
            self.encode.inputs, self.distribution, network, seed=seed, device=device
        )
        is_derived = (
            isinstance(network, MLPSpec)
            and network.gradient == "derived"
            and (device.type, network.precision) == ("cpu", "float32")
        )
        self.evaluator: Evaluator = (
            NumpyPolicy(self.policy) if is_derived else AutogradEvaluator(self.policy)
        )
        self.algorithm: Algorithm
        match spec:
            case PPOSpec():
                self.algorithm = PPO(spec, self.policy, self.evaluator, seed=seed, timer=timer)
            case A2CSpec() | ACKTRSpec():
                self.algorithm = A2C(spec, self.policy, self.evaluator, seed=seed, timer=timer)
        self._collector = Collector(
            vec_env,
            self.encode,
            self.evaluator,
            self.distribution,
            n_steps=spec.n_steps,
            seed=seed,
            timer=timer,
        )
        self._collector.reset()

    def train(self, deadline: Deadline) -> Iterator[UpdateStatistics]:
        """See Learner."""
        while not deadline.expired:
            rollout = self._collector.collect(deadline)
            if rollout is None:
                return
            yield self.algorithm.update(rollout, deadline)

    def act(self, observation: Observation, rng: np.random.Generator | None) -> NDArray[Any]:
        """See Learner."""
        n = len(next(iter(observation.values())) if isinstance(observation, dict) else observation)
        features = np.empty((n, *self.encode.shape), self.encode.dtype)
        self.encode(observation, features)
        outputs, log_std = self.evaluator.outputs(features)
        noise = None if rng is None else self.distribution.noise(rng, (n,))
        return self.distribution.to_env(self.distribution.sample(outputs, log_std, noise))

    def state_dict(self) -> dict[str, Any]:
        """See Checkpointable."""
        weights = self.policy.flat.detach().clone()
        return {"weights": weights, "optimizer": self.algorithm.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See Checkpointable. Raises RuntimeError where the shapes differ, KeyError where the
        optimizers do."""
        self.policy.flat.detach().copy_(state["weights"])
        self.algorithm.optimizer.load_state_dict(state["optimizer"])
