"""Small environments, importable by workers, each for one behaviour."""

import ctypes
import os
import signal
import time

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

BOX = spaces.Box(-2.0, 2.0, (3,), np.float32)


class Sampler(gymnasium.Env):
    """Seeded noise from any pair of spaces: observations and rewards depend on the stream and
    on all actions so far, and episodes end after 1 to 6 steps, terminated or truncated."""

    def __init__(self, observation_space=BOX, action_space=BOX):
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 7))
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.left -= 1
        reward = float(self.np_random.normal()) + float(np.sum(action))
        ends = self.left == 0
        terminated = ends and bool(self.np_random.random() < 0.5)
        return self._observe(), reward, terminated, ends and not terminated, {}

    def _observe(self):
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()


class Clockwork(gymnasium.Env):
    """Observes how many steps it has made in all; every third ends an episode. The reward is
    0.1 in float32, which does not add up in float32."""

    observation_space = spaces.Box(0, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, truncates=False):
        self.truncates = truncates
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([1000.0 + self.steps]), {}

    def step(self, action):
        self.steps += 1
        ends = self.steps % 3 == 0
        observation = np.array([float(self.steps)])
        return (
            observation,
            np.float32(0.1),
            ends and not self.truncates,
            ends and self.truncates,
            {},
        )


class Echo(gymnasium.Env):
    """Observes the action that it was given, and keeps the one before."""

    def __init__(self, action_space=BOX):
        self.action_space = action_space
        self.observation_space = spaces.Box(-np.inf, np.inf, (2, 3), np.float64)
        self.last = np.zeros(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((2, 3)), {}

    def step(self, action):
        before, self.last = self.last, action
        return np.stack([action, before]), 0.0, False, False, {}


class Faulty(gymnasium.Env):
    """Does something wrong in `where`; in `step`, the second time."""

    observation_space = BOX
    action_space = spaces.Discrete(2)

    def __init__(self, fault="raise", where="step"):
        self.fault, self.where, self.steps = fault, where, 0
        self._pass("constructor")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._pass("reset")
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 2:
            self._pass("step")
        return np.zeros(3, np.float32), 0.0, False, False, {}

    def close(self):
        self._pass("close")

    def _pass(self, where):
        if where != self.where:
            return
        if self.fault == "raise":
            raise ArithmeticError(f"broken in {where}")
        if self.fault == "hang":
            while True:
                time.sleep(3600)
        if self.fault == "hang in C":
            ctypes.PyDLL(None).sleep(3600)  # without letting go of the interpreter lock
        if self.fault == "exit":
            os._exit(7)
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "sys.exit":
            raise SystemExit(3)


class Talker(Clockwork):
    """Prints."""

    def step(self, action):
        print("chatter")  # noqa: T201
        return super().step(action)


class ModuleReport(Clockwork):
    """Raises, in its reset, with what the process has imported and how it is set up."""

    def reset(self, *, seed=None, options=None):
        import sys

        found = [name for name in ("torch", "ray", "optuna", "pydantic") if name in sys.modules]
        threads = os.environ.get("OMP_NUM_THREADS")
        raise RuntimeError(f"{found=} {threads=} cpus={sorted(os.sched_getaffinity(0))}")


class WrongShape(Clockwork):
    """Observes a shape that is not its space's, though it would broadcast."""

    def reset(self, *, seed=None, options=None):
        return np.zeros(()), {}


class Shift(gymnasium.ObservationWrapper):
    """A user's wrapper: adds to the observation."""

    def __init__(self, env, by=1.0):
        super().__init__(env)
        self.by = by

    def observation(self, observation):
        return observation + self.by


class SeededVector(gymnasium.vector.SyncVectorEnv):
    """Gymnasium's loop over environments, each (function, seed) seeded as it says here."""

    def __init__(self, functions_and_seeds, autoreset_mode):
        functions, self.seeds = zip(*functions_and_seeds, strict=True)
        super().__init__(functions, autoreset_mode=autoreset_mode)

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if seed is None else self.seeds, options=options)


SHARED = Clockwork()


def shared():
    """The same instance each time."""
    return SHARED


def clockwork(truncates=False):
    """A new Clockwork."""
    return Clockwork(truncates)


class Vectors(gymnasium.vector.VectorEnv):
    """Two Clockworks in one, with `fault`."""

    single_observation_space = Clockwork.observation_space
    single_action_space = Clockwork.action_space

    def __init__(self, num_envs, fault=None, mode=AutoresetMode.DISABLED):
        self.metadata = {"autoreset_mode": mode}
        self.num_envs = num_envs + (fault == "one more")
        self.fault = fault
        if fault == "constructor":
            raise ArithmeticError("broken in constructor")

    def reset(self, *, seed=None, options=None):
        shape = (self.num_envs, 1) if self.fault != "shape" else (1,)
        return np.full(shape, 1000.0), {}

    def step(self, actions):
        if self.fault == "step":
            raise ArithmeticError("broken in step")
        ends = np.ones(self.num_envs, np.bool_)
        return np.ones((self.num_envs, 1)), np.ones(self.num_envs), ends, ~ends, {}

    def close(self):
        if self.fault == "close":
            raise ArithmeticError("broken in close")


def next_step(num_envs):
    """Resets a step late."""
    return Vectors(num_envs, mode=AutoresetMode.NEXT_STEP)


def silent(num_envs):
    """Does not say when it resets."""
    vector = Vectors(num_envs)
    vector.metadata = {}
    return vector


TWICE = Vectors(1)


def twice(num_envs):
    """The same each time."""
    return TWICE


def not_an_env(num_envs=None):
    """Not an environment."""
    return 3


def text():
    """Observes Text."""
    return Sampler(spaces.Text(5))


def unbounded():
    """Acts without bounds."""
    return Sampler(BOX, spaces.Box(-np.inf, np.inf, (2,)))


def drive(results):
    """Use a SubprocVecEnv where a daemonic process or a Ray worker would."""
    from sweeper.envs.subproc import SubprocVecEnv

    with SubprocVecEnv([Sampler] * 3, envs_per_worker=2, seed=4) as env:
        results.put(env.reset())
