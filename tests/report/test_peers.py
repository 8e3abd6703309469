"""Exports for other libraries, tried on the library itself where it is installed."""

from __future__ import annotations

import math

import pytest
from ruamel.yaml import YAML

from sweeper.core.errors import InputError
from sweeper.optim.schedules import multiplier
from sweeper.report.peers import cleanrl_command, sb3_script, zoo_yaml
from sweeper.trial.spec import TrialSpec

BASE = {
    "env": {"id": "CartPole-v1"},
    "algorithm": {"kind": "ppo", "n_steps": 16, "n_minibatches": 4, "n_epochs": 2},
    "parallelism": {"n_envs": 2, "vec_env": "serial"},
    "budget": {"seconds": 1},
}


def trial(**algorithm):
    env = algorithm.pop("env", {})
    kind = algorithm.get("kind", "ppo")
    base = BASE["algorithm"] if kind == "ppo" else {"n_steps": 8}
    return TrialSpec.model_validate(
        BASE | {"algorithm": base | algorithm, "env": BASE["env"] | env}
    )


def run(script: str, name: str = "exported"):
    """The script's names; its `main` part is run if it is called so."""
    names = {"__name__": name}
    exec(compile(script, "exported.py", "exec"), names)
    return names


def foreign(**algorithm):
    return TrialSpec.model_validate(BASE | {"algorithm": algorithm})


def test_stable_baselines3_is_exported_to_itself():
    import torch

    spec = foreign(kind="sb3", n_steps=32, batch_size=16, net_arch=[8], activation_fn="elu")
    kwargs = run(sb3_script(spec, env_steps=1000))["kwargs"]
    assert (kwargs["n_steps"], kwargs["batch_size"], kwargs["vf_coef"]) == (32, 16, 0.5)
    assert kwargs["policy_kwargs"]["activation_fn"] is torch.nn.ELU
    assert "learning_rate: 0.0003" in zoo_yaml(spec, env_steps=1000)
    with pytest.raises(InputError, match="CleanRL has no sb3"):
        cleanrl_command(spec, env_steps=1000)


@pytest.mark.parametrize("use_rms_prop", [True, False])
def test_its_a2c_is_exported_to_itself(use_rms_prop):
    import gymnasium
    import stable_baselines3

    spec = foreign(kind="sb3_a2c", use_rms_prop=use_rms_prop, rms_prop_eps=1e-3, net_arch=[8])
    script = sb3_script(spec, env_steps=1000)
    assert "model = A2C(" in script
    env = gymnasium.make("CartPole-v1")
    model = stable_baselines3.A2C(env=env, **run(script)["kwargs"], device="cpu")
    name, eps = ("RMSprop", 1e-3) if use_rms_prop else ("Adam", 1e-5)
    optimizer = model.policy.optimizer
    assert (type(optimizer).__name__, optimizer.param_groups[0]["eps"]) == (name, eps)
    assert (model.n_steps, model.gae_lambda, model.policy.net_arch) == (5, 1.0, [8])
    assert "gae_lambda: 1.0" in zoo_yaml(spec, env_steps=1000)


@pytest.mark.parametrize("export", [sb3_script, zoo_yaml, cleanrl_command])
def test_a_learner_of_the_users_own_is_known_to_no_peer(export):
    with pytest.raises(InputError, match="has no agents:Guessing"):
        export(foreign(kind="agents:Guessing"), env_steps=1000)


@pytest.mark.parametrize(
    "optimizer",
    [
        {"kind": "adam", "beta1": 0.8, "eps": 1e-7},
        {"kind": "adamw", "weight_decay": 0.1},
        {"kind": "rmsprop", "alpha": 0.95},
        {"kind": "sgd", "momentum": 0.5},
    ],
    ids=lambda spec: spec["kind"],
)
@pytest.mark.parametrize("kind", ["ppo", "a2c"])
@pytest.mark.slow
def test_exported_arguments_construct_and_train_the_peer(kind, optimizer):
    import gymnasium
    import stable_baselines3
    import torch

    spec = trial(
        kind=kind,
        optimizer=optimizer | {"learning_rate": 0.002},
        value_coef=0.6,
        network={"hidden": [32, 16], "activation": "relu"},
        max_grad_norm=None,
    )
    names = run(sb3_script(spec, env_steps=64))
    cls = getattr(stable_baselines3, kind.upper())
    model = cls(env=gymnasium.make("CartPole-v1"), **names["kwargs"], device="cpu")
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(total_timesteps=64)
    assert any(
        not torch.equal(a, b) for a, b in zip(before, model.policy.parameters(), strict=True)
    )
    torch_name = {"adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "sgd": "SGD"}
    assert type(model.policy.optimizer).__name__ == torch_name[optimizer["kind"]]
    group = model.policy.optimizer.param_groups[0]
    for ours, theirs in {"eps": "eps", "alpha": "alpha", "weight_decay": "weight_decay"}.items():
        if ours in optimizer:
            assert group[theirs] == optimizer[ours]
    assert model.vf_coef == 0.3, "their value loss is twice ours"
    assert model.policy.net_arch == {"pi": [32, 16], "vf": [32, 16]}


@pytest.mark.slow
def test_exported_script_runs_as_it_is(tmp_path):
    import subprocess
    import sys

    spec = trial(env={"normalize_observation": True, "kwargs": {"sutton_barto_reward": False}})
    path = tmp_path / "train.py"
    path.write_text(sb3_script(spec, env_steps=64))
    subprocess.run([sys.executable, "-W", "ignore", path], check=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*precision lowered")  # by RescaleAction itself
def test_exported_script_makes_the_environment_of_the_trial():
    from gymnasium.wrappers import FrameStackObservation, RescaleAction, TimeLimit

    stacked = [{"wrapper": "gymnasium.wrappers:FrameStackObservation", "kwargs": {"stack_size": 3}}]
    changes = {"max_episode_steps": 7, "action": "rescale", "wrappers": stacked}
    spec = trial(env={"id": "Pendulum-v1", "kwargs": {"g": 9.0}} | changes)
    env = run(sb3_script(spec, env_steps=32), "__main__")["env"]
    assert isinstance(env.envs[0], RescaleAction)
    assert (env.action_space.high, env.observation_space.shape) == (1.0, (3, 3))
    assert isinstance(env.envs[0].env, FrameStackObservation)
    assert (env.get_attr("g"), env.get_attr("spec")[0].max_episode_steps) == ([9.0, 9.0], 7)

    path = "gymnasium.envs.classic_control:PendulumEnv"
    script = sb3_script(trial(env={"id": None, "make": path} | changes), env_steps=32)
    made = "gymnasium.envs.classic_control.PendulumEnv"
    assert f"env = make_vec_env({made}, n_envs=2, seed=0, wrapper_class=wrapped)" in script
    names = run(script)
    env = names["wrapped"](names["gymnasium"].envs.classic_control.PendulumEnv())
    assert isinstance(env.env.env, TimeLimit), "innermost, as in ours"


@pytest.mark.parametrize(
    "schedule",
    [
        {"kind": "constant"},
        {"kind": "linear"},
        {"kind": "linear", "final": 0.25},
        {"kind": "cosine", "final": 0.1},
        {"kind": "warmup_cosine", "warmup": 0.2},
        {"kind": "middle_drop", "at": 0.3, "factor": 0.5},
        {"kind": "double_linear", "at": 0.4, "middle": 0.2},
    ],
    ids=lambda spec: "-".join(map(str, spec.values())),
)
def test_exported_schedule_follows_progress_as_ours_does(schedule):
    spec = trial(optimizer={"kind": "adam", "learning_rate": 0.01, "schedule": schedule})
    rate = run(sb3_script(spec, env_steps=1))["kwargs"]["learning_rate"]
    for progress in (0.0, 0.1, 0.35, 0.5, 0.9, 1.0):
        theirs = rate(1 - progress) if callable(rate) else rate
        assert theirs == pytest.approx(
            0.01 * multiplier(spec.algorithm.optimizer.schedule, progress)
        )


def test_zoo_section_says_what_the_peers_arguments_say():
    spec = trial(
        optimizer={"kind": "adam", "learning_rate": 0.001, "schedule": {"kind": "linear"}},
        max_grad_norm=None,
        env={"normalize_reward": True},
    )
    (section,) = YAML(typ="safe", pure=True).load(zoo_yaml(spec, env_steps=5000)).items()
    name, values = section
    assert name == "CartPole-v1"
    assert (values["n_envs"], values["n_timesteps"], values["batch_size"]) == (2, 5000, 8)
    assert values["learning_rate"] == "lin_0.001"
    assert (values["clip_range_vf"], values["normalize_advantage"]) == (None, True)
    assert math.isinf(values["max_grad_norm"])
    assert values["normalize"] == "dict(norm_obs=False, norm_reward=True)"
    import torch

    policy = eval(values["policy_kwargs"], {"nn": torch.nn})
    assert policy["optimizer_class"] is torch.optim.Adam
    assert policy["net_arch"]["pi"] == [64, 64]


def test_zoo_section_names_wrappers():
    stacked = [{"wrapper": "gymnasium.wrappers:FrameStackObservation", "kwargs": {"stack_size": 3}}]
    text = zoo_yaml(trial(env={"wrappers": stacked, "action": "rescale"}), env_steps=5000)
    (values,) = YAML(typ="safe", pure=True).load(text).values()
    assert values["env_wrapper"] == [
        {"gymnasium.wrappers.FrameStackObservation": {"stack_size": 3}},
        {"gymnasium.wrappers.RescaleAction": {"min_action": -1.0, "max_action": 1.0}},
    ]


def test_cleanrl_command_line():
    command = cleanrl_command(
        trial(optimizer={"kind": "adam", "learning_rate": 0.0003}), env_steps=9
    )
    assert command.startswith("python cleanrl/ppo.py --env-id CartPole-v1 --seed 0")
    for part in ("--total-timesteps 9", "--no-anneal-lr", "--num-steps 16", "--vf-coef 0.5"):
        assert part in command


@pytest.mark.parametrize(
    ("export", "changes", "words"),
    [
        (cleanrl_command, {"optimizer": {"kind": "sgd"}}, "CleanRL has no optimizer sgd"),
        (cleanrl_command, {"kind": "a2c"}, "CleanRL has no a2c"),
        (cleanrl_command, {"network": {"hidden": [8]}}, "no network other"),
        (
            zoo_yaml,
            {"optimizer": {"kind": "adam", "schedule": {"kind": "cosine"}}},
            "not cosine",
        ),
        (zoo_yaml, {"env": {"kwargs": {"sutton_barto_reward": True}}}, "--env-kwargs"),
        (zoo_yaml, {"env": {"max_episode_steps": 9}}, "no time limit of episodes"),
        (cleanrl_command, {"env": {"max_episode_steps": 9}}, "no time limit of episodes"),
        (cleanrl_command, {"env": {"action": "rescale"}}, "no rescaled actions"),
        (sb3_script, {"env": {"action": "none"}}, "no actions beyond their bounds"),
        (sb3_script, {"kind": "acktr"}, "Stable-Baselines3 has no acktr"),
        (sb3_script, {"optimizer": {"kind": "kfac"}}, "no optimizer kfac"),
        (sb3_script, {"network": {"kind": "impala"}}, "no network impala"),
    ],
)
def test_what_a_peer_cannot_express_is_refused_by_name(export, changes, words):
    with pytest.raises(InputError, match=words):
        export(trial(**changes), env_steps=1)
