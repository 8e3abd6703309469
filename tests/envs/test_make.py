import pickle
import sys

import numpy as np
import pytest

from sweeper.core.errors import InputError
from sweeper.envs.make import describe, env_factory, make_vec_env
from sweeper.envs.spec import EnvSpec, WrapperSpec


def test_a_description_tells_spaces_threshold_and_time_limit():
    description = describe(EnvSpec(id="CartPole-v1"))
    assert description.observation_space.shape == (4,)
    assert description.action_space.n == 2
    assert description.reward_threshold == 475.0
    assert description.max_episode_steps == 500


def test_a_time_limit_of_the_spec_overrides_the_registered_one():
    spec = EnvSpec(id="CartPole-v1", max_episode_steps=3)
    assert describe(spec).max_episode_steps == 3
    with make_vec_env(spec, vec_env="serial", n_envs=1, seed=0) as env:
        env.reset()
        steps = [env.step(np.array([step % 2])).truncated.item() for step in range(3)]
    assert steps == [False, False, True]


def test_a_time_limit_bounds_an_environment_from_a_function():
    spec = EnvSpec(make="toys:Echo", max_episode_steps=2)
    with make_vec_env(spec, vec_env="serial", n_envs=1, seed=0) as env:
        env.reset()
        act = np.zeros((1, 3), np.float32)
        assert not env.step(act).truncated.any()
        step = env.step(act)
        assert step.truncated.all()
        assert step.episode_length == [2]


def test_wrappers_of_the_user_are_applied_innermost_first():
    shift = WrapperSpec(wrapper="toys:Shift", kwargs={"by": 2.0})
    scale = WrapperSpec(wrapper="gymnasium.wrappers:DtypeObservation", kwargs={"dtype": np.float32})
    spec = EnvSpec(make="toys:clockwork", wrappers=(shift, scale))
    with make_vec_env(spec, vec_env="subproc", n_envs=2, seed=0) as env:
        assert env.reset().tolist() == [[1002.0], [1002.0]]
        assert env.reset().dtype == np.float32


def test_a_factory_is_picklable_and_makes_a_new_environment_each_time():
    factory = pickle.loads(pickle.dumps(env_factory(EnvSpec(id="CartPole-v1"))))
    one, other = factory(), factory()
    assert one.unwrapped is not other.unwrapped
    one.close()
    other.close()


@pytest.mark.parametrize("vec_env", ["serial", "subproc"])
def test_actions_are_rescaled_as_the_spec_says(vec_env):
    spec = EnvSpec(make="toys:Echo", action="rescale")
    with make_vec_env(spec, vec_env=vec_env, n_envs=2, n_groups=2, seed=0) as env:
        env.reset()
        step = env.step(np.full((2, 3), 0.5, np.float32))
        assert (step.observation[:, 0] == 1.0).all()
    assert (describe(spec).action_space.high == 1.0).all()


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(InputError, match=r"pip install 'sweeper\[atari\]'"):
        describe(EnvSpec(id="ALE/Pong-v5"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": "CartPole-v9"}, r"unknown environment 'CartPole-v9': did you mean CartPole-v1"),
        ({"id": "cartpole-v1"}, r"did you mean CartPole-v1"),
        ({"id": "zzz"}, r"unknown environment 'zzz': ids of a package are written"),
        ({"id": "Nowhere/CartPole-v1"}, r"did you mean CartPole-v1"),
        ({"id": "no_such_module:Env-v0"}, r"cannot be imported: .*no_such_module"),
        ({"id": "toys:Env-v0"}, r"unknown environment 'toys:Env-v0'"),
        ({"id": "CartPole-v1", "kwargs": {"colour": 1}}, r"cannot be made: TypeError: .*colour"),
        ({"make": "toys:absent"}, r"toys:absent cannot be made: AttributeError: .*absent"),
        ({"make": "toys:not_an_env"}, r"must return a gymnasium.Env, got int"),
        ({"make": "toys:Faulty", "kwargs": {"where": "constructor"}}, r"broken in constructor"),
        ({"make": "toys:clockwork", "kwargs": {}, "wrappers": [{"wrapper": "toys:no"}]}, r"'no'"),
        ({"id": "LunarLander-v3"}, r"pip install 'gymnasium\[box2d\]'"),
        ({"id": "Blackjack-v1", "normalize_observation": True}, r"Box .*Blackjack-v1 has Tuple"),
        ({"make": "toys:text"}, r"observation space Text is not supported"),
        ({"make": "toys:unbounded", "action": "rescale"}, r"needs finite bounds"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(given, message):
    with pytest.raises(InputError, match=message) as caught:
        describe(EnvSpec.model_validate(given))
    assert "\n" not in str(caught.value)


ATARI = {
    "id": "ale_py:ALE/Pong-v5",
    "kwargs": {"frameskip": 1},
    "wrappers": [
        {"wrapper": "gymnasium.wrappers:AtariPreprocessing"},
        {"wrapper": "gymnasium.wrappers:FrameStackObservation", "kwargs": {"stack_size": 4}},
    ],
}


def test_atari_is_preprocessed_and_stacked_by_gymnasiums_own_wrappers():
    for package in ("ale_py", "cv2"):
        pytest.importorskip(package)
    spec = EnvSpec.model_validate(ATARI)
    actions = np.random.default_rng(0).integers(0, 6, (30, 2))
    with (
        make_vec_env(spec, vec_env="serial", n_envs=2, seed=1) as serial,
        make_vec_env(spec, vec_env="subproc", n_envs=2, envs_per_worker=1, seed=1) as subproc,
    ):
        assert serial.single_observation_space.shape == (4, 84, 84)
        np.testing.assert_array_equal(before := serial.reset().copy(), subproc.reset())
        for action in actions:
            one, other = serial.step(action).observation, subproc.step(action).observation
            assert one.dtype == np.uint8
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(one[:, :3], before[:, 1:])  # the latest frame is last
            before = one.copy()
    assert (before[0] != before[1]).any()  # each starts with no-ops of its own
