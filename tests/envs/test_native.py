"""What only native vector implementations can do; the contract they share is in test_vec_env."""

import importlib.util
import sys

import gymnasium
import numpy as np
import pytest
import toys

from sweeper.core.errors import EnvWorkerError, InputError
from sweeper.envs.make import check_native, make_vec_env
from sweeper.envs.native import NativeVecEnv
from sweeper.envs.spec import EnvSpec
from sweeper.envs.vector_factory import VectorFactory

needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None, reason="EnvPool is an optional extra"
)
needs_mujoco = pytest.mark.skipif(
    importlib.util.find_spec("mujoco") is None, reason="MuJoCo is an optional extra"
)
REGISTERED = EnvSpec(id="CartPole-v1", max_episode_steps=30)
ENVPOOL = REGISTERED.model_copy(
    update={"vector": EnvSpec(id="x", vector={"make": "envpool"}).vector}
)
IMPLEMENTATIONS = [
    pytest.param(REGISTERED, id="gymnasium"),
    pytest.param(ENVPOOL, id="envpool", marks=needs_envpool),
]


def spec_of(make, **kwargs):
    return EnvSpec.model_validate(
        {"make": "toys:clockwork", "vector": {"make": make, "kwargs": kwargs}}
    )


def native(spec, n_envs=2, **keywords):
    return make_vec_env(spec, vec_env="gymnasium", n_envs=n_envs, **{"seed": 3} | keywords)


def cartpole_steps(states, actions):
    """What the single environment makes of each state: the oracle."""
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset()
    results = []
    for state, action in zip(states, actions, strict=True):
        env.state, env.steps_beyond_terminated = state.astype(np.float64), None
        results.append(env.step(int(action))[:3])
    observations, rewards, terminated = zip(*results, strict=True)
    return np.array(observations), np.array(rewards), np.array(terminated)


@pytest.mark.parametrize("spec", IMPLEMENTATIONS)
@pytest.mark.parametrize("n_groups", [1, 2])
def test_every_transition_of_a_native_cartpole_is_a_real_one(spec, n_groups):
    rng = np.random.default_rng(0)
    totals, lengths, ends, cuts = np.zeros(7), np.zeros(7, np.int64), 0, 0
    with native(spec, 7, n_groups=n_groups) as env:
        before = env.reset().copy()
        for _ in range(200):
            # Not at random: some episodes shall last until they are cut.
            action = np.where(rng.random(7) < 0.15, rng.integers(0, 2, 7), before[:, 2] > 0)
            step = env.step(action.astype(np.int64))
            observation, reward, terminated = cartpole_steps(before, action)
            ended = step.terminated | step.truncated
            after = np.where(ended[:, None], step.final_observation, step.observation)
            np.testing.assert_allclose(after, observation, rtol=1e-4, atol=1e-6)
            if spec is ENVPOOL:  # which tells only the cut when an episode also ends by itself
                terminated &= ~step.truncated
            np.testing.assert_array_equal(step.terminated, terminated)
            np.testing.assert_array_equal(step.reward, reward)
            totals, lengths = totals + reward, lengths + 1
            assert (step.truncated >= ((lengths == 30) & ~terminated)).all()
            assert (lengths <= 30).all()
            np.testing.assert_array_equal(step.episode_return[ended], totals[ended])
            np.testing.assert_array_equal(step.episode_length[ended], lengths[ended])
            assert (np.abs(step.observation[ended]) <= 0.05).all()
            totals[ended], lengths[ended] = 0.0, 0
            ends, cuts = ends + terminated.sum(), cuts + step.truncated.sum()
            before = step.observation.copy()
    assert ends > 5
    assert cuts > 5


@pytest.mark.parametrize("spec", IMPLEMENTATIONS)
def test_equal_seeds_give_equal_trajectories_and_no_other_seed_does(spec):
    def first_and_last(seed):
        with native(spec, 4, seed=seed, n_groups=2) as env:
            first = env.reset().copy()
            for _ in range(40):
                last = env.step(np.ones(4, np.int64)).observation
            return np.concatenate([first, last])

    one = first_and_last(1)
    np.testing.assert_array_equal(one, first_and_last(1))
    assert len(np.unique(np.concatenate([one[:4], first_and_last(2)[:4]]), axis=0)) == 8


@needs_envpool
@needs_mujoco
def test_envpool_gives_the_physics_of_the_single_environment():
    spec = EnvSpec(id="Hopper-v5", vector={"make": "envpool"})
    check_native(spec)
    with native(spec, 3) as env:
        env.reset()
        lengths = np.zeros(3, np.int64)
        action = np.full((3, 3), 9.0)  # clipped, or Hopper would fly
        for _ in range(60):
            step = env.step(action)
            lengths += 1
            ended = step.terminated
            np.testing.assert_array_equal(step.episode_length[ended], lengths[ended])
            # Unhealthy is not upright; what comes next starts upright again.
            assert (np.abs(step.observation[ended, 1]) <= 0.005).all()
            lengths[ended] = 0
        assert np.isfinite(step.observation).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": "Acrobot-v1"}, r"^Acrobot-v1 has no native vector implementation"),
        ({"id": "CartPole-v7"}, r"unknown environment 'CartPole-v7'"),
        ({"make": "toys:clockwork"}, r"needs `env.vector.make`"),
        (
            {"id": "CartPole-v1", "wrappers": [{"wrapper": "toys:Shift"}]},
            r"env.wrappers wrap single environments",
        ),
        (
            {"id": "CartPole-v1", "vector": {"make": "toys:Vectors"}},
            r"CartPole-v1 has other observations than the single environment",
        ),
        (
            {"id": "CartPole-v1", "vector": {"make": "toys:absent"}},
            r"CartPole-v1 cannot be made: AttributeError",
        ),
    ],
)
def test_what_has_no_usable_native_implementation_is_refused_in_one_line(given, message):
    with pytest.raises(InputError, match=message) as caught:
        check_native(EnvSpec.model_validate(given))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (spec_of("toys:next_step"), r"Vectors has autoreset_mode NextStep"),
        (spec_of("toys:silent"), r"Vectors has autoreset_mode None"),
        (spec_of("toys:not_an_env"), r"must return a gymnasium.vector.VectorEnv, got int"),
        (spec_of("toys:Vectors", fault="constructor"), r"ArithmeticError: broken in constructor"),
        (spec_of("toys:Vectors", fault="one more"), r"asked for 2 environments and has 3"),
    ],
)
def test_a_vector_env_that_cannot_be_used_is_refused(spec, message):
    with pytest.raises(InputError, match=message):
        check_native(spec)


def test_a_vector_env_of_ones_own_is_used():
    spec = spec_of("toys:Vectors")
    check_native(spec)
    with native(spec) as env:
        env.reset()
        step = env.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(step.observation, [[1000.0]] * 2)
    np.testing.assert_array_equal(step.final_observation, [[1.0]] * 2)


def test_the_same_vector_env_for_two_groups_is_refused():
    with pytest.raises(InputError, match="must make a new one"):
        native(spec_of("toys:twice"), 2, n_groups=2)


def test_envpool_that_is_not_installed_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(InputError, match=r"pip install 'sweeper\[envpool\]'"):
        check_native(ENVPOOL)


@needs_envpool
def test_what_envpool_does_not_have_is_refused():
    factory = VectorFactory("Nowhere-v0", "envpool", kwargs={}, max_episode_steps=None)
    with pytest.raises(InputError, match="EnvPool has no environment 'Nowhere-v0'"):
        factory(2, seed=0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("step", r"^environments 0 to 1 \(seed \d+\) raised in step: ArithmeticError: broken"),
        ("shape", r"^environments 0 to 1 \(seed \d+\) raised in reset: .*shape \(1,\), not \(2, 1"),
    ],
)
def test_an_exception_names_its_environments_and_carries_the_traceback(fault, message):
    def run():
        with native(spec_of("toys:Vectors", fault=fault)) as env:
            env.reset()
            env.step(np.zeros(2, np.int64))

    with pytest.raises(EnvWorkerError, match=message) as caught:
        run()
    assert "Traceback" in str(caught.value)


def test_an_exception_while_closing_is_a_warning():
    env = native(spec_of("toys:Vectors", fault="close"), 2, n_groups=2)
    with pytest.warns(RuntimeWarning, match="environments . to . .*broken in close") as caught:
        env.close()
    assert len(caught) == 2
    env.close()


def test_a_failure_while_the_second_group_is_made_closes_the_first():
    closed = []

    class Closing(toys.Vectors):
        def close(self):
            closed.append(self)

    made = iter([Closing(1), ArithmeticError("second")])

    def make(n_envs, *, seed):
        one = next(made)
        if isinstance(one, Exception):
            raise one
        return one

    with pytest.raises(EnvWorkerError, match=r"environments 1 to 1 .*its constructor: .*second"):
        NativeVecEnv(make, n_envs=2, n_groups=2)
    assert len(closed) == 1
