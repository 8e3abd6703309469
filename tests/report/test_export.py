from __future__ import annotations

from ruamel.yaml import YAML

from sweeper.core.clock import BudgetSpec
from sweeper.envs.spec import EnvSpec
from sweeper.optim.spec import AdamSpec
from sweeper.report.export import trial_yaml
from sweeper.rl.spec import PPOSpec
from sweeper.trial.spec import ParallelismSpec, TrialSpec

SPEC = TrialSpec(
    env=EnvSpec(id="CartPole-v1", kwargs={"name": "1e-3", "on": "yes", "text": "a: b # c"}),
    algorithm=PPOSpec(
        n_steps=64, n_minibatches=4, optimizer=AdamSpec(learning_rate=3e-4, eps=1e-8)
    ),
    parallelism=ParallelismSpec(n_envs=8),
    budget=BudgetSpec(seconds=10.0),
)


def test_exported_configuration_is_the_trial_itself(make_study, make_trial):
    text = trial_yaml(make_study(), make_trial(3, config_json=SPEC.model_dump_json()))
    data = YAML(typ="safe", pure=True).load(text)
    assert list(data) == ["trial"]
    assert TrialSpec.model_validate(data["trial"]) == SPEC
    assert list(data["trial"]) == list(TrialSpec.model_fields)


def test_small_floats_are_floats_to_older_readers_too(make_study, make_trial):
    text = trial_yaml(make_study(), make_trial(3, config_json=SPEC.model_dump_json()))
    assert "eps: 1.0e-08" in text


def test_header_says_where_it_comes_from(make_study, make_trial):
    study = make_study(name="two\nlines: [")
    trial = make_trial(3, config_json="{}", final_return=487.3, steps_per_second=24349.0)
    header = [line for line in trial_yaml(study, trial).splitlines() if line.startswith("#")]
    assert header == [
        "# study: two lines: [",
        "# trial: 3 (sampler, COMPLETED, runs: 1)",
        "# final_return: 487",
        "# steps_per_second: 24,300 env steps/s",
    ]
