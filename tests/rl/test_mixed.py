"""Images with vectors beside them: against `torch.nn`, through a rollout, and learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import worlds
from gymnasium import Env, spaces
from gymnasium.wrappers import TimeLimit, TransformObservation
from rl import twins

from sweeper.core.clock import BudgetSpec, Deadline, ManualClock
from sweeper.core.errors import DivergedError
from sweeper.core.records import RunResult, RunStatus
from sweeper.core.timing import PhaseTimer
from sweeper.envs.serial import SerialVecEnv
from sweeper.rl.actor_critic import ActorCriticLearner
from sweeper.rl.distributions import distribution_for
from sweeper.rl.features import features_for
from sweeper.rl.policy import ActorCritic
from sweeper.rl.rollout import Collector
from sweeper.rl.spec import CNNSpec, ConvolutionSpec, IMPALASpec, PPOSpec
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec

CNN = CNNSpec(
    kind="cnn", convolutions=(ConvolutionSpec(filters=8, kernel=4, stride=4),), hidden=(64,)
)
NETWORKS = {"cnn": CNN, "impala": IMPALASpec(kind="impala", channels=(4, 5), hidden=(7, 6))}
# An image of 315 bytes: where the vector lies is not a matter of course.
SPACE = spaces.Dict(
    {
        "eye": spaces.Box(0, 255, (9, 7, 3), np.uint8),
        "map": spaces.Box(0, 255, (2, 9, 7), np.uint8),
        "speed": spaces.Box(-1, 1, (2,)),
        "turn": spaces.Discrete(3),
    }
)


def observations(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    eye = rng.integers(256, size=(size, 9, 7, 3), dtype=np.uint8)
    map_ = rng.integers(256, size=(size, 2, 9, 7), dtype=np.uint8)
    speed = rng.normal(size=(size, 2)).astype(np.float32)
    return {"eye": eye, "map": map_, "speed": speed, "turn": rng.integers(3, size=size)}


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("shared", [True, False])
def test_outputs_and_gradients_are_those_of_torch_on_both_parts(kind: str, shared: bool) -> None:
    network = NETWORKS[kind].model_copy(update={"shared": shared})
    encode, distribution = features_for(SPACE, network), distribution_for(spaces.Discrete(3))
    policy = ActorCritic(encode.inputs, distribution, network, seed=1, dtype=torch.float64)
    seen = observations(5)
    rows = np.zeros((5, *encode.shape), encode.dtype)
    encode(seen, rows)
    outputs, value, _ = policy.forward(policy.tensor(rows))
    generator = torch.Generator().manual_seed(2)
    towards = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    (torch.cat((outputs, value[:, None]), 1) * towards).sum().backward()

    images = np.concatenate((seen["eye"].transpose(0, 3, 1, 2), seen["map"]), 1) / 255.0
    vector = np.concatenate((seen["speed"], np.eye(3)[seen["turn"]]), 1)
    of_nets = []
    columns = (slice(3), slice(3, 4))
    both = zip(twins.heads(policy), (outputs, value[:, None]), columns, strict=True)
    for net, (head, ours, part) in enumerate(both):
        twin = twins.twin(policy, 0 if shared else net, head)
        theirs = twin(torch.from_numpy(images), torch.from_numpy(vector))
        torch.testing.assert_close(ours, theirs)
        (theirs * towards[:, part]).sum().backward()
        of_nets.append([p.grad for p in twin.parameters()])
    gradient = policy.weights(policy.flat.grad)
    below = [[part[net] for layer in gradient.below for part in layer] for net in range(2 - shared)]
    expected = [grads[:-2] for grads in of_nets]
    if shared:
        expected = [[one + other for one, other in zip(*expected, strict=True)]]
    for ours_of, theirs_of in zip(below, expected, strict=True):
        for one, other in zip(ours_of, theirs_of, strict=True):
            assert one.abs().max() > 0
            torch.testing.assert_close(one, other)


def learner_on(env: SerialVecEnv, **spec: Any) -> ActorCriticLearner:
    timer = PhaseTimer(ManualClock())
    return ActorCriticLearner(PPOSpec(network=CNN, **spec), env, seed=0, timer=timer)


def collector_of(learner: ActorCriticLearner, env: SerialVecEnv, n_steps: int) -> Collector:
    collector = Collector(
        env,
        learner.encode,
        learner.evaluator,
        learner.distribution,
        n_steps=n_steps,
        seed=0,
        timer=PhaseTimer(ManualClock()),
    )
    collector.reset()
    return collector


def forever() -> Deadline:
    return Deadline(ManualClock(), BudgetSpec(env_steps=10**9))


def test_it_acts_on_both_parts_as_torch_does() -> None:
    with SerialVecEnv([worlds.Turned] * 7) as env:
        learner, seen = learner_on(env), env.reset()
        assert isinstance(seen, dict)
        images = torch.from_numpy(seen["image"].transpose(0, 3, 1, 2) / 255.0).float()
        vector = torch.from_numpy(np.eye(3, dtype=np.float32)[seen["turn"]])
        logits = twins.twin(learner.policy, 0, twins.heads(learner.policy)[0])(images, vector)
        assert learner.act(seen, None).tolist() == logits.argmax(1).tolist()


def test_a_rollout_keeps_bytes_beside_vectors_and_both_of_final_observations() -> None:
    with SerialVecEnv([lambda: TimeLimit(worlds.Turned(), 4)] * 2) as env:
        learner = learner_on(env, n_steps=10, n_minibatches=2)
        rollout = collector_of(learner, env, 10).collect(forever())
        assert rollout is not None
        assert rollout.features.shape == (11, 2)
        assert rollout.features["image"].dtype == np.uint8
        t, n, final = rollout.final
        assert (t.tolist(), n.tolist()) == ([3, 3, 7, 7], [0, 1, 0, 1])
        for features in (rollout.features, final):
            assert features["image"].any(axis=(-3, -2, -1)).all()
            assert (features["vector"].sum(axis=-1) == 1.0).all()
        assert not np.array_equal(final["image"][0], rollout.features["image"][4, 0])
        learner.algorithm.update(rollout, forever())


@pytest.mark.parametrize("optimizer", ["kfac", "muon"])
def test_other_optimizers_take_both_parts(optimizer: str) -> None:
    algorithm = {"kind": "ppo", "n_steps": 8, "n_minibatches": 2, "n_epochs": 4}
    result = trained(algorithm | {"optimizer": {"kind": optimizer}}, env_steps=256)
    assert result.updates == 4


def test_a_vector_that_is_not_finite_ends_the_run() -> None:
    speed = spaces.Box(-1, 1, (1,))

    def make() -> Env[Any, Any]:
        pictured = worlds.Pictured((12, 12, 3))
        space = spaces.Dict({"image": pictured.observation_space, "speed": speed})
        nan = np.full(1, np.nan, np.float32)
        return TransformObservation(pictured, lambda image: {"image": image, "speed": nan}, space)

    with SerialVecEnv([make]) as env:
        collector = collector_of(learner_on(env), env, 3)
        with pytest.raises(DivergedError, match="observation"):
            collector.collect(forever())


def trained(algorithm: dict[str, Any], *, env_steps: int) -> RunResult:
    network = CNN.model_dump(mode="json")
    trial = TrialSpec.model_validate(
        {
            "env": {"make": "worlds:Turned"},
            "algorithm": algorithm | {"network": network},
            "parallelism": {"vec_env": "serial", "n_envs": 8},
            "budget": {"env_steps": env_steps},
        }
    )
    *_, result = run_trial(trial)
    assert isinstance(result, RunResult)
    assert result.status is RunStatus.COMPLETED, result.reason
    return result


@pytest.mark.slow
def test_ppo_learns_what_takes_both_parts() -> None:
    algorithm = {
        "kind": "ppo",
        "n_steps": 32,
        "n_minibatches": 4,
        "n_epochs": 4,
        "entropy_coef": 0.01,
        "optimizer": {"kind": "adam", "learning_rate": 3e-3},
    }
    final_return = trained(algorithm, env_steps=48_000).final_return
    assert final_return is not None
    assert final_return >= 9.0, "either part alone gives 3.3"
