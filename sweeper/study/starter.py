"""A first study of an environment, written after a look at it and at the machine."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from gymnasium import spaces

from sweeper.envs.make import EnvDescription, describe, env_factory
from sweeper.envs.spec import EnvSpec, WrapperSpec
from sweeper.rl.features import features_for, has_images
from sweeper.rl.spec import CNNSpec

LOOK_SECONDS = 0.5
"""For how long the environment is stepped to see what a step costs."""
LEARNER_SECONDS = 5e-5
"""What collecting and learning add to an environment's own step, roughly, on one core."""
IMAGE_LEARNER_SECONDS = 5e-3
"""The same with convolutions: some 250 million operations a step."""
BUDGETS = (10, 15, 20, 30, 45, 60, 90, 120, 180, 300)
IMAGE_BUDGETS = (300, 600, 900, 1800, 3600)
OVERHEAD_SECONDS = 4.0
"""Set-up and evaluation of a trial, roughly."""
DEFAULT_TRIALS, FEWEST_TRIALS = 40, 12
RERUN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of an environment and the machine."""

    env: EnvSpec
    is_discrete: bool
    is_image: bool
    step_seconds: float
    reward_threshold: float | None
    max_episode_steps: int | None
    cores: int

    @property
    def steps_per_second(self) -> float:
        """What one core may train at."""
        learner_seconds = IMAGE_LEARNER_SECONDS if self.is_image else LEARNER_SECONDS
        return 1.0 / (self.step_seconds + learner_seconds)

    @property
    def budget_seconds(self) -> int:
        """Long enough to learn something: discrete actions take some 150,000 steps, others, and
        images, some 500,000."""
        is_easy = self.is_discrete and not self.is_image
        wanted = (150_000 if is_easy else 500_000) / self.steps_per_second
        budgets = IMAGE_BUDGETS if self.is_image else BUDGETS
        return next((budget for budget in budgets if budget >= wanted), budgets[-1])


def look(env_id: str, *, cores: int) -> Look:
    """Make the environment and step it for a moment. Images are put through the customary
    wrappers. Raises InputError as `describe` does, and for images too small for a CNN."""
    spec = EnvSpec(id=env_id)
    known = describe(spec)
    is_seen = has_images(known.observation_space)
    if is_seen:
        spec = _preprocessed(env_id, known)
        known = describe(spec)
        features_for(known.observation_space, CNNSpec(kind="cnn"))
    env = env_factory(spec)()
    try:
        env.reset(seed=0)
        env.action_space.seed(0)
        steps, began_at = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began_at) < LOOK_SECONDS:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            steps += 1
            if terminated or truncated:
                env.reset()
    finally:
        env.close()
    return Look(
        env=spec,
        is_discrete=not isinstance(known.action_space, spaces.Box),
        is_image=is_seen,
        step_seconds=elapsed / steps,
        reward_threshold=known.reward_threshold,
        max_episode_steps=known.max_episode_steps,
        cores=cores,
    )


def _preprocessed(env_id: str, known: EnvDescription) -> EnvSpec:
    """The last four frames, in gray; of an Atari game, as Mnih et al. 2015 show it."""
    stack = WrapperSpec(
        wrapper="gymnasium.wrappers:FrameStackObservation", kwargs={"stack_size": 4}
    )
    if env_id.rpartition(":")[2].startswith("ALE/"):
        atari = WrapperSpec(wrapper="gymnasium.wrappers:AtariPreprocessing")
        return EnvSpec(id=env_id, kwargs={"frameskip": 1}, wrappers=(atari, stack))
    if (known.observation_space.shape or ())[-1:] != (3,):  # no colors to turn into gray
        return EnvSpec(id=env_id)
    gray = WrapperSpec(wrapper="gymnasium.wrappers:GrayscaleObservation")
    return EnvSpec(id=env_id, wrappers=(gray, stack))


def starter_study(seen: Look, *, hours: float | None = None) -> str:
    """YAML of a study that can be launched as it is. With `hours`, as many trials as fit."""
    budget = seen.budget_seconds
    trials = DEFAULT_TRIALS
    if hours is not None:
        runs = hours * 3600 * seen.cores / (budget + OVERHEAD_SECONDS)
        trials = max(int(runs * (1.0 - RERUN_SHARE)), FEWEST_TRIALS)
    stop = f"{{trials: {trials}}}" if hours is None else f"{{trials: {trials}, hours: {hours:g}}}"
    runs = trials / (1.0 - RERUN_SHARE) / seen.cores
    minutes = math.ceil(runs * (budget + OVERHEAD_SECONDS) / 60)
    threshold = "none" if seen.reward_threshold is None else f"{seen.reward_threshold:g}"
    limit = f"{seen.max_episode_steps} steps" if seen.max_episode_steps else "none"
    kind = _IMAGES if seen.is_image else _DISCRETE if seen.is_discrete else _CONTINUOUS
    return _TEMPLATE.format(
        env_id=seen.env.name,
        env=_env_yaml(seen),
        name=f"{seen.env.name.rpartition(':')[2].rpartition('/')[2].lower()}-speed-against-return",
        cost=f"{seen.step_seconds * 1e6:.0f}",
        threshold=threshold,
        limit=limit,
        cores=seen.cores,
        stop=stop,
        budget=budget,
        minutes=minutes,
        **kind,
    )


def _env_yaml(seen: Look) -> str:
    """The keys of the section `env`."""
    env = seen.env
    lines = [f"id: {env.id}"]
    if env.kwargs:
        lines.append(f"kwargs: {_flow(env.kwargs)}")
    if env.wrappers:
        wrappers = (wrapper.model_dump(exclude_unset=True) for wrapper in env.wrappers)
        lines.append("wrappers:                    # innermost first")
        lines += (f"  - {_flow(wrapper)}" for wrapper in wrappers)
    if not seen.is_image:
        lines.append(f"normalize_observation: {_flow(not seen.is_discrete)}")
    normalize = seen.is_image or not seen.is_discrete
    lines.append(f"normalize_reward: {_flow(normalize)}")
    return "\n".join(f"    {line}" for line in lines)


def _flow(value: object) -> str:
    """Plain data as YAML's flow style has it."""
    match value:
        case dict():
            return f"{{{', '.join(f'{key}: {_flow(item)}' for key, item in value.items())}}}"
        case bool() | int():
            return str(value).lower()
        case _:
            return f'"{value}"'


_NETWORK = """
    network: {kind: cnn}         # three convolutions, one hidden layer of 512
    clip_range: 0.1
    entropy_coef: 0.01"""

_CUSTOMARY = """\
    parallelism.n_envs: 1
    algorithm.n_steps: 2048
    algorithm.n_minibatches: 32
    algorithm.n_epochs: 10
    algorithm.optimizer.learning_rate: 3.0e-4
    algorithm.optimizer.schedule.kind: constant"""

_CUSTOMARY_OF_IMAGES = """\
    parallelism.n_envs: 8
    algorithm.n_steps: 128
    algorithm.n_minibatches: 4
    algorithm.n_epochs: 4
    algorithm.optimizer.learning_rate: 2.5e-4
    algorithm.optimizer.schedule.kind: linear"""

_DISCRETE = {
    "network": "",
    "n_epochs": 10,
    "customary": _CUSTOMARY,
    "n_steps": 32,
    "least_steps": 16,
    "most_steps": 256,
    "n_minibatches": 4,
    "learning_rate": "1.0e-3",
    "entropy": "  algorithm.entropy_coef:            {kind: choice, choices: [0.0, 0.001, 0.01]}\n",
}
_CONTINUOUS = {
    "network": "",
    "n_epochs": 10,
    "customary": _CUSTOMARY,
    "n_steps": 128,
    "least_steps": 32,
    "most_steps": 1024,
    "n_minibatches": 8,
    "learning_rate": "3.0e-4",
    "entropy": "",
}
_IMAGES = {
    "network": _NETWORK,
    "n_epochs": 4,
    "customary": _CUSTOMARY_OF_IMAGES,
    "n_steps": 128,
    "least_steps": 16,
    "most_steps": 512,
    "n_minibatches": 4,
    "learning_rate": "2.5e-4",
    "entropy": "  algorithm.entropy_coef:            {kind: choice, choices: [0.0, 0.001, 0.01]}\n",
}

_TEMPLATE = """\
# How fast can {env_id} be learnt, and what does speed cost?
#
# Written by `sweeper init` after a look at the environment (a step takes {cost} us; time limit
# {limit}; counts as solved at {threshold}) and the machine ({cores} cores). It takes about
# {minutes} minutes.
#
#   sweeper check FILE       what will be searched, and for how long
#   sweeper launch FILE      search it; launch again to continue
#
# Every key is explained in docs/study-file.md.

study: {name}

objectives:                      # the two axes of the front
  final_return: maximize         # mean return of 20 episodes after training
  steps_per_second: maximize     # environment steps a second, learning included

stop: {stop}
concurrency: auto                # as many trials at once as the cores hold
sampler: {{kind: auto, seed: 0}}
replicate: {{share: 0.25}}       # of all runs, re-runs of trials that the front hangs on
confirm: {{top: 3, seeds: 3}}    # at the end, the front on fresh seeds, one trial at a time

trial:                           # where every trial starts from
  env:
{env}
  algorithm:
    kind: ppo{network}
    n_steps: {n_steps}
    n_minibatches: {n_minibatches}
    n_epochs: {n_epochs}
    optimizer: {{kind: adam, learning_rate: {learning_rate}, schedule: {{kind: linear}}}}
  parallelism:
    vec_env: subproc
    n_envs: 8
    cores: 1                     # reserved for the trial, and nobody else's while it runs
  budget: {{seconds: {budget}}}
  evaluation: {{episodes: 20}}
  seed: 0

search:                          # dotted paths into `trial`
  parallelism.n_envs:                {{kind: pow2, low: 1, high: 64}}
  parallelism.vec_env:               {{kind: choice, choices: [subproc, serial]}}
  algorithm.n_steps:                 {{kind: pow2, low: {least_steps}, high: {most_steps}}}
  algorithm.n_minibatches:           {{kind: pow2, low: 1, high: 32}}
  algorithm.n_epochs:                {{kind: int, low: 1, high: 20, log: true}}
  algorithm.gamma:                   {{kind: choice, choices: [0.95, 0.98, 0.99, 0.995]}}
  algorithm.gae_lambda:              {{kind: choice, choices: [0.8, 0.9, 0.95, 0.98]}}
{entropy}  algorithm.optimizer.kind:          {{kind: choice, choices: [adam, adamw, rmsprop]}}
  algorithm.optimizer.learning_rate: {{kind: float, low: 1.0e-4, high: 1.0e-2, log: true}}
  algorithm.optimizer.schedule.kind: {{kind: choice, choices: [constant, linear, cosine]}}

baseline:                        # what speed-ups are measured against; runs first
  set:                           # the customary defaults of PPO
{customary}

enqueue:                         # likely to be good: tried before anything is suggested
  - {{parallelism.n_envs: 8, algorithm.n_steps: {n_steps}}}
  - {{parallelism.n_envs: 16, algorithm.n_steps: {n_steps}}}
"""
