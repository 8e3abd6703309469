"""A trial's configuration in the words of other libraries, to try it there.

What a peer cannot express is refused by name, never dropped. Three things differ everywhere
and are translated: a peer counts its budget in env steps, so the steps that the trial made are
given; schedules follow those; and our value loss is half of a mean square, as in CleanRL, where
Stable-Baselines3 takes all of it, so that `vf_coef` is half of `value_coef` there.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sweeper.core.errors import InputError
from sweeper.envs.spec import EnvSpec
from sweeper.optim.spec import (
    AdamSpec,
    AdamWSpec,
    ConstantSchedule,
    CosineSchedule,
    DoubleLinearSchedule,
    LinearSchedule,
    MiddleDropSchedule,
    OptimizerSpec,
    RMSpropSpec,
    ScheduleSpec,
    SGDSpec,
    WarmupCosineSchedule,
)
from sweeper.rl.foreign import SB3A2CSpec, SB3PPOSpec, SB3Spec
from sweeper.rl.spec import A2CSpec, CNNSpec, IMPALASpec, MLPSpec, NetworkSpec, PPOSpec
from sweeper.store.rows import TrialRow
from sweeper.trial.spec import TrialSpec


class PeerExport(Protocol):
    """Writes a configuration for one library."""

    def __call__(self, spec: TrialSpec, *, env_steps: int) -> str:
        """A text for that library. Raises InputError for what it cannot express."""


def sb3_script(spec: TrialSpec, *, env_steps: int) -> str:
    """A Python script for Stable-Baselines3: `kwargs` for its PPO or A2C, and a call."""
    algorithm = _known_to_sb3(spec)
    name = "A2C" if isinstance(algorithm, A2CSpec | SB3A2CSpec) else "PPO"
    kwargs = "".join(f"    {key}={value},\n" for key, value in _sb3_kwargs(spec).items())
    env = spec.env
    made = repr(env.id) if env.id is not None else _called(str(env.make))
    options = [f"n_envs={spec.parallelism.n_envs}", f"seed={spec.seed}"]
    kwargs_of_env = dict(env.kwargs)
    if env.id is not None and env.max_episode_steps is not None:
        kwargs_of_env["max_episode_steps"] = env.max_episode_steps  # gymnasium.make takes it
    if kwargs_of_env:
        options.append(f"env_kwargs={kwargs_of_env!r}")
    wrappers = _wrappers(env)
    if wrappers:
        options.append("wrapper_class=wrapped")
    modules = {"math", "torch", *(path.partition(":")[0] for path, _ in wrappers)}
    if env.make is not None:
        modules.add(env.make.partition(":")[0])
    normalize = ""
    if env.normalize_observation or env.normalize_reward:
        normalize = (
            f"    env = VecNormalize(env, norm_obs={env.normalize_observation}, "
            f"norm_reward={env.normalize_reward}, gamma={algorithm.gamma!r})\n"
        )
    return (
        "".join(f"import {module}\n" for module in sorted(modules))
        + f"from stable_baselines3 import {name}\n"
        "from stable_baselines3.common.env_util import make_vec_env\n"
        + ("from stable_baselines3.common.vec_env import VecNormalize\n" if normalize else "")
        + f"\nkwargs = dict(\n{kwargs})\n\n"
        + _wrapping(wrappers)
        + 'if __name__ == "__main__":\n'
        + f"    env = make_vec_env({made}, {', '.join(options)})\n"
        + normalize
        + f"    model = {name}(env=env, **kwargs)\n"
        + f"    model.learn(total_timesteps={env_steps})\n"
    )


def _wrappers(env: EnvSpec) -> list[tuple[str, dict[str, Any]]]:
    """(`module:Name`, keyword arguments) of what is around an environment, innermost first."""
    limit = [("gymnasium.wrappers:TimeLimit", {"max_episode_steps": env.max_episode_steps})]
    rescale = [("gymnasium.wrappers:RescaleAction", {"min_action": -1.0, "max_action": 1.0})]
    return [
        *(limit if env.make is not None and env.max_episode_steps is not None else []),
        *((each.wrapper, dict(each.kwargs)) for each in env.wrappers),
        *(rescale if env.action == "rescale" else []),
    ]


def _called(path: str) -> str:
    """`package.module:Name` as Python names it where its module is imported."""
    return path.replace(":", ".")


def _wrapping(wrappers: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """A function `wrapped`, as Python source."""
    if not wrappers:
        return ""
    calls = "".join(
        f"    env = {_called(path)}({', '.join(['env', *_arguments(kwargs)])})\n"
        for path, kwargs in wrappers
    )
    return f"\ndef wrapped(env):\n{calls}    return env\n\n\n"


def _arguments(kwargs: Mapping[str, Any]) -> list[str]:
    if all(key.isidentifier() for key in kwargs):
        return [f"{key}={value!r}" for key, value in kwargs.items()]
    return [f"**{dict(kwargs)!r}"]


def zoo_yaml(spec: TrialSpec, *, env_steps: int) -> str:
    """A section of a hyperparameter file of RL Baselines3 Zoo."""
    env = spec.env
    if env.id is None:
        raise InputError("the zoo names environments by a registered id, and this one has none")
    _refuse(
        "a file of the zoo",
        {
            "arguments for the environment (its command line has: --env-kwargs)": bool(env.kwargs),
            "time limit of episodes": env.max_episode_steps is not None,
        },
    )
    kwargs = _sb3_kwargs(spec)
    policy = kwargs.pop("policy_kwargs").replace("torch.nn.", "nn.")
    policy = policy.replace("torch.optim.", "__import__('torch').optim.")
    algorithm = _known_to_sb3(spec)
    kwargs["learning_rate"] = _zoo_schedule(*_learning_rate(algorithm))
    if isinstance(algorithm, PPOSpec):
        kwargs["clip_range"] = _zoo_schedule(algorithm.clip_range, algorithm.clip_range_schedule)
    del kwargs["seed"]
    words = {"True": "true", "False": "false", "None": "null", "math.inf": ".inf"}
    lines = [
        f"{env.id}:",
        f"  n_envs: {spec.parallelism.n_envs}",
        f"  n_timesteps: {env_steps}",
        *(f"  {key}: {words.get(value, value)}" for key, value in kwargs.items()),
        f'  policy_kwargs: "{policy}"',
    ]
    if env.normalize_observation or env.normalize_reward:
        lines.append(
            f'  normalize: "dict(norm_obs={env.normalize_observation}, '
            f'norm_reward={env.normalize_reward})"'
        )
    if wrappers := _wrappers(env):
        lines.append("  env_wrapper:")
        lines += [f"    - {_called(path)}: {json.dumps(kwargs)}" for path, kwargs in wrappers]
    return "\n".join(lines) + "\n"


def cleanrl_command(spec: TrialSpec, *, env_steps: int) -> str:
    """A command line for CleanRL's single-file PPO; for Box actions its `ppo_continuous_action.py`
    takes the same."""
    algorithm = spec.algorithm
    if not isinstance(algorithm, PPOSpec):
        raise InputError(f"CleanRL has no {algorithm.name}")
    if spec.env.id is None:
        raise InputError("CleanRL names environments by a registered id, and this one has none")
    optimizer, network = algorithm.optimizer, algorithm.network
    schedule = optimizer.schedule
    annealed = isinstance(schedule, LinearSchedule) and schedule.final == 0
    _refuse(
        "CleanRL",
        {
            f"optimizer {optimizer.kind}": not isinstance(optimizer, AdamSpec),
            "other settings of adam than beta1 0.9, beta2 0.999, eps 1e-5": isinstance(
                optimizer, AdamSpec
            )
            and (optimizer.beta1, optimizer.beta2, optimizer.eps) != (0.9, 0.999, 1e-5),
            f"schedule {schedule.kind}": not (annealed or isinstance(schedule, ConstantSchedule)),
            "schedule of the clip range": not isinstance(
                algorithm.clip_range_schedule, ConstantSchedule
            ),
            "network other than [64, 64] tanh": not isinstance(network, MLPSpec)
            or (network.hidden, network.activation, network.shared) != ((64, 64), "tanh", False),
            "clip range of its own for values": algorithm.clip_range_value
            not in (None, algorithm.clip_range),
            "arguments for the environment": bool(spec.env.kwargs),
            "wrappers of the environment": bool(spec.env.wrappers),
            "time limit of episodes": spec.env.max_episode_steps is not None,
            "rescaled actions": spec.env.action == "rescale",
            "actions beyond their bounds": spec.env.action == "none",
        },
    )
    flags = [
        f"--env-id {shlex.quote(spec.env.id)}",
        f"--seed {spec.seed}",
        f"--total-timesteps {env_steps}",
        f"--learning-rate {optimizer.learning_rate!r}",
        "--anneal-lr" if annealed else "--no-anneal-lr",
        f"--num-envs {spec.parallelism.n_envs}",
        f"--num-steps {algorithm.n_steps}",
        f"--num-minibatches {algorithm.n_minibatches}",
        f"--update-epochs {algorithm.n_epochs}",
        f"--gamma {algorithm.gamma!r}",
        f"--gae-lambda {algorithm.gae_lambda!r}",
        "--norm-adv" if algorithm.normalize_advantage else "--no-norm-adv",
        f"--clip-coef {algorithm.clip_range!r}",
        "--clip-vloss" if algorithm.clip_range_value else "--no-clip-vloss",
        f"--ent-coef {algorithm.entropy_coef!r}",
        f"--vf-coef {algorithm.value_coef!r}",
        f"--max-grad-norm {1e9 if algorithm.max_grad_norm is None else algorithm.max_grad_norm!r}",
    ]
    if algorithm.target_kl is not None:
        flags.append(f"--target-kl {algorithm.target_kl!r}")
    return "python cleanrl/ppo.py " + " ".join(flags) + "\n"


PEERS: Mapping[str, PeerExport] = {
    "sb3": sb3_script,
    "zoo": zoo_yaml,
    "cleanrl": cleanrl_command,
}
"""Name -> export, as `sweeper export --as` takes it."""


def peer_steps(trial: TrialRow) -> int:
    """The budget to give a peer: what the trial made of its own, else a million steps."""
    return trial.budget_env_steps or int(trial.env_steps or 1_000_000)


def _known_to_sb3(spec: TrialSpec) -> PPOSpec | A2CSpec | SB3Spec:
    if isinstance(spec.algorithm, PPOSpec | A2CSpec | SB3Spec):
        return spec.algorithm
    raise InputError(f"Stable-Baselines3 has no {spec.algorithm.name}")


def _learning_rate(algorithm: PPOSpec | A2CSpec | SB3Spec) -> tuple[float, ScheduleSpec]:
    if isinstance(algorithm, SB3Spec):
        return algorithm.learning_rate, algorithm.learning_rate_schedule
    return algorithm.optimizer.learning_rate, algorithm.optimizer.schedule


def _sb3_kwargs(spec: TrialSpec) -> dict[str, str]:
    """Keyword -> its value as Python source, in which `math` and `torch` are imported."""
    algorithm = _known_to_sb3(spec)
    _refuse("Stable-Baselines3", {"actions beyond their bounds": spec.env.action == "none"})
    kwargs = {
        "policy": '"MlpPolicy"',
        "learning_rate": _sb3_schedule(*_learning_rate(algorithm)),
        "n_steps": repr(algorithm.n_steps),
        "gamma": repr(algorithm.gamma),
        "gae_lambda": repr(algorithm.gae_lambda),
    }
    if isinstance(algorithm, SB3Spec):
        return kwargs | _sb3_itself(algorithm) | {"seed": repr(spec.seed)}
    policy, architecture = _sb3_network(algorithm.network)
    optimizer_class, optimizer_kwargs = _torch_optimizer(algorithm.optimizer)
    kwargs |= {
        "policy": policy,
        "ent_coef": repr(algorithm.entropy_coef),
        "vf_coef": repr(algorithm.value_coef / 2),
        "max_grad_norm": "math.inf"
        if algorithm.max_grad_norm is None
        else repr(algorithm.max_grad_norm),
        "normalize_advantage": repr(algorithm.normalize_advantage),
    }
    if isinstance(algorithm, PPOSpec):
        kwargs |= {
            "batch_size": repr(spec.minibatch_size),
            "n_epochs": repr(algorithm.n_epochs),
            "clip_range": _sb3_schedule(algorithm.clip_range, algorithm.clip_range_schedule),
            "clip_range_vf": repr(algorithm.clip_range_value),
            "target_kl": repr(algorithm.target_kl),
        }
    else:
        kwargs["use_rms_prop"] = "False"  # which would bring its own RMSprop for the one below
    return kwargs | {
        "policy_kwargs": (
            f"dict({architecture}, "
            f"optimizer_class=torch.optim.{optimizer_class}, "
            f"optimizer_kwargs=dict({optimizer_kwargs}))"
        ),
        "seed": repr(spec.seed),
    }


def _sb3_network(network: NetworkSpec) -> tuple[str, str]:
    """Policy class, and what describes the network in `policy_kwargs`, as Python source."""
    if isinstance(network, IMPALASpec):
        raise InputError(f"Stable-Baselines3 has no network {network.kind}")
    if isinstance(network, CNNSpec):
        plain = CNNSpec(kind="cnn")
        _refuse(
            "Stable-Baselines3",
            {
                "convolutions other than the default": network.convolutions != plain.convolutions,
                "more than one hidden layer after convolutions": len(network.hidden) > 1,
            },
        )
        return '"CnnPolicy"', (
            f"features_extractor_kwargs=dict(features_dim={network.hidden[0]}), "
            f"share_features_extractor={network.shared}, net_arch=[]"
        )
    _refuse("Stable-Baselines3", {"layers that policy and value share": network.shared})
    layers, activation = list(network.hidden), {"tanh": "Tanh", "relu": "ReLU"}[network.activation]
    return '"MlpPolicy"', (
        f"net_arch=dict(pi={layers}, vf={layers}), activation_fn=torch.nn.{activation}"
    )


def _sb3_itself(algorithm: SB3Spec) -> dict[str, str]:
    """What is called there as it is here."""
    names = ["normalize_advantage", "ent_coef", "vf_coef", "max_grad_norm"]
    if isinstance(algorithm, SB3PPOSpec):
        names += ["batch_size", "n_epochs", "clip_range", "clip_range_vf", "target_kl"]
    else:
        names += ["use_rms_prop", "rms_prop_eps"]
    activation = {"tanh": "Tanh", "relu": "ReLU", "elu": "ELU", "leaky_relu": "LeakyReLU"}
    return {name: repr(getattr(algorithm, name)) for name in names} | {
        "policy_kwargs": (
            f"dict(net_arch={list(algorithm.net_arch)}, "
            f"activation_fn=torch.nn.{activation[algorithm.activation_fn]}, "
            f"ortho_init={algorithm.ortho_init})"
        )
    }


def _torch_optimizer(spec: OptimizerSpec) -> tuple[str, str]:
    """Class in torch.optim, and its arguments as Python source."""
    match spec:
        case AdamSpec():
            return "Adam", f"betas=({spec.beta1!r}, {spec.beta2!r}), eps={spec.eps!r}"
        case AdamWSpec():
            return "AdamW", (
                f"betas=({spec.beta1!r}, {spec.beta2!r}), eps={spec.eps!r}, "
                f"weight_decay={spec.weight_decay!r}"
            )
        case RMSpropSpec():
            return "RMSprop", f"alpha={spec.alpha!r}, eps={spec.eps!r}"
        case SGDSpec():
            return "SGD", f"momentum={spec.momentum!r}"
        case _:
            raise InputError(f"Stable-Baselines3 has no optimizer {spec.kind}")


def _sb3_schedule(value: float, schedule: ScheduleSpec) -> str:
    """A number, or a lambda of the remaining progress, which falls from 1 to 0."""
    match schedule:
        case ConstantSchedule():
            return repr(value)
        case LinearSchedule(final=final):
            factor = "left" if final == 0 else f"({final!r} + {1 - final!r} * left)"
        case CosineSchedule(final=final):
            factor = _cosine("(1 - left)", final)
        case WarmupCosineSchedule(warmup=warmup, final=final):
            fall = _cosine(f"((1 - left - {warmup!r}) / {1 - warmup!r})", final)
            factor = f"((1 - left) / {warmup!r} if 1 - left < {warmup!r} else {fall})"
        case MiddleDropSchedule(at=at, factor=drop):
            factor = f"(1.0 if 1 - left < {at!r} else {drop!r})"
        case DoubleLinearSchedule(at=at, middle=middle):
            first = f"1 + {middle - 1!r} * (1 - left) / {at!r}"
            factor = f"({first} if 1 - left < {at!r} else {middle!r} * left / {1 - at!r})"
    return f"lambda left: {value!r} * {factor}"


def _cosine(progress: str, final: float) -> str:
    return f"({final!r} + {1 - final!r} * (1 + math.cos(math.pi * {progress})) / 2)"


def _zoo_schedule(value: float, schedule: ScheduleSpec) -> str:
    if isinstance(schedule, ConstantSchedule):
        return repr(value)
    if isinstance(schedule, LinearSchedule) and schedule.final == 0:
        return f"lin_{value!r}"
    raise InputError(f"the zoo has constant and linear schedules, not {schedule.kind}")


def _refuse(peer: str, unknown: Mapping[str, bool]) -> None:
    """Raise InputError that names all that the peer cannot express."""
    found = [name for name, holds in unknown.items() if holds]
    if found:
        raise InputError(f"{peer} has no {', no '.join(found)}")
