"""Learners of a user's own, importable by any process of the tests."""

import numpy as np

from sweeper.rl.learner import UpdateStatistics


class Guessing:
    """Acts at random and learns nothing; without a `Spec`."""

    def __init__(self, parameters, vec_env, *, seed, timer):
        self.parameters, self.vec_env = parameters, vec_env
        self.rng = np.random.default_rng(seed)
        vec_env.reset()

    def train(self, deadline):
        while not deadline.expired:
            self.vec_env.step(self._guess(self.vec_env.n_envs))
            yield UpdateStatistics()

    def act(self, observation, rng):
        return self._guess(len(observation))

    def _guess(self, n):
        return self.rng.integers(self.vec_env.single_action_space.n, size=n)


class Lazy:
    """No learner: it cannot act."""

    def train(self, deadline):
        yield UpdateStatistics()


not_a_class = Guessing.train
