"""Environments for tests of trials and studies, importable by any process of theirs."""

import ctypes
import os
import resource
import signal
import subprocess
import threading
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Constant(gymnasium.Env):
    """Reward 1 for ever: with truncation alone, the value of every state is 1 / (1 - gamma)."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=8):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        return self._observe(), 1.0, False, self.steps >= self.length, {}

    def _observe(self):
        return np.array([1.0, self.steps / self.length], np.float32)


class Matching(gymnasium.Env):
    """Reward 1 for the action that was shown: learned in a few hundred steps."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(3)
    LENGTH = 10

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.shown = int(self.np_random.integers(3))
        return self.shown, {}

    def step(self, action):
        reward = float(action == self.shown)
        self.steps += 1
        self.shown = int(self.np_random.integers(3))
        return self.shown, reward, self.steps >= self.LENGTH, False, {}


class Pictured(Matching):
    """Matching, where the third of an image that is bright shows the action."""

    def __init__(self, shape=(1, 36, 36)):
        self.shape = shape
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)

    def reset(self, **kwargs):
        shown, info = super().reset(**kwargs)
        return self._picture(shown), info

    def step(self, action):
        shown, *rest = super().step(action)
        return self._picture(shown), *rest

    def _picture(self, shown):
        image = self.np_random.integers(100, size=self.shape, dtype=np.uint8)
        third = self.shape[1] // 3  # the middle axis is one of pixels in every layout
        image[:, shown * third : (shown + 1) * third] += 100
        return image


class Turned(Pictured):
    """Pictured, where a number beside the image says how far the action is from what it shows:
    neither alone tells anything."""

    def __init__(self, shape=(12, 12, 3)):
        super().__init__(shape)
        self.observation_space = spaces.Dict(
            {"image": self.observation_space, "turn": spaces.Discrete(3)}
        )

    def _picture(self, shown):
        turn = int(self.np_random.integers(3))
        return {"image": super()._picture((shown - turn) % 3), "turn": turn}


class Broken(Constant):
    """Misbehaves after some steps: `how` is raise, nan, exit or kill_parent."""

    def __init__(self, how, after=100):
        super().__init__()
        self.how, self.left = how, after

    def step(self, action):
        observation, *rest = super().step(action)
        self.left -= 1
        if self.left < 0:
            match self.how:
                case "raise":
                    raise RuntimeError("the simulator exploded")
                case "nan":
                    observation[0] = np.nan
                case "exit":
                    os._exit(3)
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
        return observation, *rest


class Printing(Constant):
    """Writes to standard output, from Python and beneath it, as simulators do."""

    def reset(self, **kwargs):
        print("print: a new episode")  # noqa: T201
        os.write(1, b"write: a new episode\n")
        return super().reset(**kwargs)


class Waiting(Constant):
    """Stands still in its steps for as long as a file is there."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def step(self, action):
        while os.path.exists(self.file):
            time.sleep(0.01)
        return super().step(action)


class Busy(Constant):
    """Each step takes its seconds: of the processor (`burn`), or of waiting (`sleep`)."""

    def __init__(self, burn=0.0, sleep=0.0):
        super().__init__(length=50)
        self.burn, self.sleep = burn, sleep

    def step(self, action):
        end = time.thread_time() + self.burn
        while time.thread_time() < end:
            pass
        if self.sleep:
            time.sleep(self.sleep)
        return super().step(action)


class Hanging(Constant):
    """Sleeps for ever after some steps: in C, with the interpreter's lock held."""

    def __init__(self, after=100):
        super().__init__()
        self.left = after

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            ctypes.PyDLL(None).pause()
        return super().step(action)


class Odd(Constant):
    """Does to its process what it should not, from its first reset on: `how` says what.
    ODD_MARK in their environment tells the processes that it starts."""

    def __init__(self, how, mark=""):
        super().__init__()
        self.how, self.mark, self.resets, self.leaked = how, mark, 0, []
        if how == "space of bytes":
            self.observation_space = spaces.Box(0, 255, (2,), np.uint8)

    def reset(self, **kwargs):
        self.resets += 1
        if self.resets == 1:
            self._begin()
        elif self.how == "hangs in reset":
            time.sleep(3600)
        return super().reset(**kwargs)

    def _begin(self):
        os.environ["ODD_MARK"] = self.mark
        match self.how:
            case "changes directory":
                os.chdir("/")
            case "ignores signals":
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
            case "starts threads":
                threading.Thread(target=time.sleep, args=(3600,)).start()
            case "leaks":
                with open("/proc/self/statm") as file:
                    size = int(file.read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, resource.RLIM_INFINITY))
            case "starts processes":
                self.child = subprocess.Popen(["sleep", "3600"])
                # And one that no group, session or parent leads to.
                subprocess.call("setsid sleep 3600 &", shell=True, start_new_session=True)

    def step(self, action):
        observation, *rest = super().step(action)
        match self.how:
            case "prints a lot":
                print("chatter " * 1000)  # noqa: T201
            case "wrong shape":
                observation = observation[:1]
            case "wrong type":
                observation = ["a", "b"]
            case "nan reward":
                rest[0] = float("nan")
            case "leaks":
                self.leaked.append(bytearray(2**24))
        return observation, *rest

    def close(self):
        if self.how == "ignores signals" and self.resets:
            time.sleep(3600)
