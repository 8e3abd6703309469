"""The contract that every VecEnv keeps."""

import os
from functools import partial
from itertools import islice

import numpy as np
import pytest
import toys
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sweeper.core.errors import EnvError, EnvWorkerError, InputError
from sweeper.envs.block import env_seeds
from sweeper.envs.native import NativeVecEnv
from sweeper.envs.serial import SerialVecEnv
from sweeper.envs.subproc import SubprocVecEnv


def native(mode, fns, *, seed=0, n_groups=1, action="none"):
    """A NativeVecEnv over Gymnasium's vectorized loop, with the seeds that ours would give."""
    parts = iter(zip(fns, env_seeds(seed, len(fns)), strict=True))

    def make(n_envs, *, seed):
        return toys.SeededVector(list(islice(parts, n_envs)), mode)

    return NativeVecEnv(make, n_envs=len(fns), seed=seed, n_groups=n_groups, action=action)


KINDS = {
    "serial": SerialVecEnv,
    "gymnasium, same step": partial(native, AutoresetMode.SAME_STEP),
    "gymnasium, masked": partial(native, AutoresetMode.DISABLED),
    "forkserver": partial(SubprocVecEnv, envs_per_worker=2),
    "pinned": partial(SubprocVecEnv, envs_per_worker=2, cpus=sorted(os.sched_getaffinity(0))),
    "spawn": partial(SubprocVecEnv, envs_per_worker=2, start_method="spawn"),
    "fork": partial(SubprocVecEnv, envs_per_worker=2, start_method="fork"),
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


@pytest.fixture(
    params=["serial", "gymnasium, same step", "gymnasium, masked", "forkserver", "pinned"]
)
def make_quick(request):
    return KINDS[request.param]


@pytest.fixture(params=["serial", "forkserver", "spawn", "fork"])
def make_ours(request):
    """Of single environments, which can be told apart and checked one by one."""
    return KINDS[request.param]


SPACES = {
    "box float32": toys.BOX,
    "box float64": spaces.Box(-1, 1, (2, 2), np.float64),
    "box uint8": spaces.Box(0, 255, (4, 4, 1), np.uint8),
    "box scalar": spaces.Box(-1, 1, (), np.float32),
    "discrete": spaces.Discrete(5, start=-2),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary((2, 3)),
    "dict": spaces.Dict({"a": toys.BOX, "b": spaces.Discrete(3)}),
    "tuple": spaces.Tuple([toys.BOX, spaces.MultiBinary(4)]),
    "nested": spaces.Dict({"x": spaces.Tuple([spaces.Dict({"y": toys.BOX}), spaces.Discrete(2)])}),
}
ARRAY_SPACES = [
    name for name, space in SPACES.items() if not isinstance(space, spaces.Dict | spaces.Tuple)
]


def actions_for(space, n_envs, n_steps):
    space.seed(0)
    return [np.stack([space.sample() for _ in range(n_envs)]) for _ in range(n_steps)]


def flat(observation):
    leaves = observation if isinstance(observation, dict) else {"": observation}
    return {key: leaf.copy() for key, leaf in leaves.items()}


def record(env, actions, *, apart=False):
    """Every array of a trajectory, invalid entries blanked, for comparison."""
    trajectory = [flat(env.reset())]
    for action in actions:
        if apart:
            for group in reversed(range(len(env.groups))):
                env.step_async(action[env.groups[group]], group)
            parts = [env.step_wait(group) for group in range(len(env.groups))]
            assert all(
                len(p.reward) == r.stop - r.start for p, r in zip(parts, env.groups, strict=True)
            )
            step = env._arrays.whole
        else:
            step = env.step(action)
        ended = step.terminated | step.truncated
        trajectory.append(
            flat(step.observation)
            | {f"final {key}": leaf[ended] for key, leaf in flat(step.final_observation).items()}
            | {
                "reward": step.reward.copy(),
                "terminated": step.terminated.copy(),
                "truncated": step.truncated.copy(),
                "return": step.episode_return[ended],
                "length": step.episode_length[ended],
            }
        )
    return trajectory


def assert_equal(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            assert a[key].dtype == b[key].dtype
            np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def reference(observation_space, action_space, seeds, actions):
    """What a plain loop over Gymnasium environments sees: rewards and ends, float64 returns."""
    rewards, ends = [], []
    for index, seed in enumerate(seeds):
        env = toys.Sampler(observation_space, action_space)
        env.reset(seed=seed)
        total, mine, mine_ends = 0.0, [], []
        for action in actions:
            _, reward, terminated, truncated, _ = env.step(action[index])
            total += reward
            mine.append(reward)
            if terminated or truncated:
                mine_ends.append(total)
                total = 0.0
                env.reset()
        rewards.append(mine)
        ends.append(mine_ends)
    return np.array(rewards).T, ends


@pytest.mark.parametrize("kind", ["gymnasium, same step", "gymnasium, masked", "forkserver"])
@pytest.mark.parametrize("name", SPACES)
def test_every_observation_space_gives_the_serial_trajectory_to_the_bit(kind, name):
    fns = [partial(toys.Sampler, SPACES[name], spaces.Discrete(3))] * 3
    actions = actions_for(spaces.Discrete(3), 3, 15)
    with SerialVecEnv(fns, seed=7) as serial, KINDS[kind](fns, seed=7) as other:
        assert other.single_observation_space == SPACES[name]
        assert_equal(record(serial, actions), record(other, actions))


@pytest.mark.parametrize("kind", ["gymnasium, same step", "gymnasium, masked", "forkserver"])
@pytest.mark.parametrize("name", ARRAY_SPACES)
def test_every_action_space_gives_the_serial_trajectory_to_the_bit(kind, name):
    if kind != "forkserver" and name == "box scalar":
        pytest.skip("Gymnasium's loop takes scalars out of the batch, which a Box does not contain")
    fns = [partial(toys.Sampler, toys.BOX, SPACES[name])] * 3
    actions = actions_for(SPACES[name], 3, 10)
    with SerialVecEnv(fns, seed=7) as serial, KINDS[kind](fns, seed=7) as other:
        assert_equal(record(serial, actions), record(other, actions))


@pytest.mark.parametrize(("n_envs", "n_groups"), [(1, 1), (2, 1), (2, 2), (5, 1), (5, 2)])
def test_every_start_method_and_layout_gives_the_serial_trajectory(make, n_envs, n_groups):
    fns = [toys.Sampler] * n_envs
    actions = actions_for(toys.BOX, n_envs, 20)
    keywords = {"envs_per_worker": 1} if n_envs == 1 and "SubprocVecEnv" in str(make) else {}
    with (
        SerialVecEnv(fns, seed=3) as serial,
        make(fns, seed=3, n_groups=n_groups, **keywords) as env,
    ):
        assert_equal(record(serial, actions), record(env, actions, apart=n_groups == 2))


def test_a_plain_loop_over_the_environments_sees_the_same(make_quick):
    actions = actions_for(toys.BOX, 4, 30)
    with make_quick([toys.Sampler] * 4, seed=5) as env:
        trajectory = record(env, actions)
        rewards, ends = reference(toys.BOX, toys.BOX, env_seeds(5, 4), actions)
    np.testing.assert_array_equal([t["reward"] for t in trajectory[1:]], rewards.astype(np.float32))
    returns = np.concatenate([t["return"] for t in trajectory[1:]])
    assert sorted(returns) == sorted(total for totals in ends for total in totals)


@pytest.mark.parametrize("truncates", [False, True])
def test_autoreset_keeps_the_final_observation_and_the_episode(make, truncates):
    with make([partial(toys.Clockwork, truncates)] * 3) as env:
        observation = env.reset()
        np.testing.assert_array_equal(observation, [[1000.0]] * 3)
        act = np.zeros(3, np.int64)
        step = env.step(act)
        assert not step.terminated.any()
        assert not step.truncated.any()
        env.step(act)
        step = env.step(act)
        assert step.terminated.all() == (not truncates)
        assert step.truncated.all() == truncates
        np.testing.assert_array_equal(step.final_observation, [[3.0]] * 3)
        np.testing.assert_array_equal(step.observation, [[1003.0]] * 3)
        # The sum of three float32(0.1), in float64.
        np.testing.assert_array_equal(step.episode_return, [3 * float(np.float32(0.1))] * 3)
        np.testing.assert_array_equal(step.episode_length, [3] * 3)
        step = env.step(act)
        assert not (step.terminated | step.truncated).any()
        np.testing.assert_array_equal(step.observation, [[4.0]] * 3)


def test_reset_again_starts_new_episodes_and_continues_the_streams(make_quick):
    actions = actions_for(toys.BOX, 2, 4)
    with make_quick([toys.Sampler] * 2, seed=1) as env:
        first, second = record(env, actions), record(env, actions)
    with make_quick([toys.Sampler] * 2, seed=1) as env:
        assert_equal(first, record(env, actions))
        assert_equal(second, record(env, actions))
    assert not np.array_equal(first[0][""], second[0][""])


def test_a_partial_episode_does_not_count_after_a_reset(make_quick):
    act = np.zeros(2, np.int64)
    with make_quick([toys.Clockwork] * 2) as env:
        env.reset()
        env.step(act)
        env.reset()
        env.step(act)
        step = env.step(act)
        np.testing.assert_array_equal(step.episode_length, [2, 2])


def test_neighbouring_seeds_share_no_stream(make_quick):
    with make_quick([toys.Sampler] * 4, seed=0) as a, make_quick([toys.Sampler] * 4, seed=1) as b:
        rows = np.concatenate([a.reset(), b.reset()])
    assert len(np.unique(rows, axis=0)) == 8


@pytest.mark.parametrize(
    ("mode", "given", "seen"),
    [
        ("none", [-1.5, 0.5, 1.5], [-1.5, 0.5, 1.5]),
        ("clip", [-9.0, 0.5, 9.0], [-2.0, 0.5, 2.0]),
        ("rescale", [-1.0, 0.25, 7.0], [-2.0, 0.5, 2.0]),
    ],
)
def test_box_actions_are_clipped_or_rescaled_to_their_bounds(make_quick, mode, given, seen):
    with make_quick([toys.Echo] * 2, action=mode) as env:
        env.reset()
        step = env.step(np.array([given] * 2, np.float32))
        np.testing.assert_array_equal(step.observation[:, 0], [seen] * 2)
        high = 1.0 if mode == "rescale" else 2.0
        assert (env.single_action_space.high == high).all()


@pytest.mark.parametrize("mode", ["none", "clip", "rescale"])
def test_an_environment_may_keep_the_action_that_it_was_given(make_quick, mode):
    with make_quick([toys.Echo] * 2, action=mode) as env:
        env.reset()
        first = env.step(np.full((2, 3), 0.5, np.float32)).observation[:, 0].copy()
        step = env.step(np.full((2, 3), -0.5, np.float32))
        np.testing.assert_array_equal(step.observation[:, 1], first)


@pytest.mark.parametrize("where", ["constructor", "reset", "step"])
def test_an_exception_names_the_environment_and_its_seed_with_its_traceback(make_ours, where):
    fns = [partial(toys.Faulty, where="never")] * 2 + [partial(toys.Faulty, where=where)]

    def run():
        with make_ours(fns, seed=11) as env:
            env.reset()
            for _ in range(3):
                env.step(np.zeros(3, np.int64))

    with pytest.raises(EnvWorkerError) as caught:
        run()
    first, *trace = str(caught.value).splitlines()
    seed = env_seeds(11, 3)[2]
    assert first.startswith(f"environment 2 (seed {seed}) raised in")
    assert first.endswith(f"ArithmeticError: broken in {where}")
    assert any("toys.py" in line and "_pass" in line for line in trace)


def test_an_exception_while_closing_is_a_warning_and_the_others_are_closed(make_ours):
    fns = [partial(toys.Faulty, where="close"), partial(toys.Faulty, where="never")]
    env = make_ours(fns)
    env.reset()
    with pytest.warns(RuntimeWarning, match=r"environment 0 .*ArithmeticError: broken in close"):
        env.close()
    env.close()


def test_an_environment_that_calls_sys_exit_is_an_error_of_the_environment(make_ours):
    fns = [partial(toys.Faulty, where="never"), partial(toys.Faulty, "sys.exit")]
    with make_ours(fns) as env:
        env.reset()
        env.step(np.zeros(2, np.int64))
        with pytest.raises(EnvWorkerError, match=r"environment 1 .*SystemExit: 3"):
            env.step(np.zeros(2, np.int64))


def test_an_observation_of_the_wrong_shape_is_an_error_not_broadcast(make_ours):
    with (
        make_ours([toys.WrongShape] * 2) as env,
        pytest.raises(EnvWorkerError, match=r"shape \(\), its space says \(1,\)"),
    ):
        env.reset()


def test_no_environments_are_refused(make):
    with pytest.raises(InputError, match="at least 1 environment"):
        make([])


def test_one_instance_behind_two_functions_is_refused(make_ours):
    with pytest.raises(InputError, match="environments 0 and 1 are one instance"):
        make_ours([toys.shared, toys.shared])


@pytest.mark.parametrize("other", [1, 2])
def test_spaces_that_differ_are_refused(make_ours, other):
    fns = [toys.Sampler] * 3
    fns[other] = toys.Clockwork
    with pytest.raises(InputError, match="same spaces"):
        make_ours(fns)


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (spaces.Text(5), "Text"),
        (spaces.Graph(toys.BOX, None), "Graph"),
        (spaces.Sequence(toys.BOX), "Sequence"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Text(5)})}), r"Text \(at 'a.b'\)"),
    ],
)
def test_spaces_that_arrays_cannot_hold_are_refused_by_name(make_quick, space, name):
    with pytest.raises(InputError, match=f"observation space {name}"):
        make_quick([partial(toys.Sampler, space)] * 2)


def test_dict_actions_are_refused_by_name(make_quick):
    with pytest.raises(InputError, match="action space Dict"):
        make_quick([partial(toys.Sampler, toys.BOX, spaces.Dict({"a": toys.BOX}))] * 2)


def test_unbounded_actions_cannot_be_rescaled(make_quick):
    with pytest.raises(InputError, match="needs finite bounds"):
        make_quick([toys.unbounded] * 2, action="rescale")


@pytest.mark.parametrize("n_groups", [0, 3])
def test_a_group_without_environments_is_refused(make_quick, n_groups):
    with pytest.raises(InputError, match="n_groups must be 1 to n_envs = 2"):
        make_quick([toys.Clockwork] * 2, n_groups=n_groups)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1)])
def test_actions_of_the_wrong_shape_are_refused_not_broadcast(make_quick, shape):
    with make_quick([toys.Clockwork] * 2) as env:
        env.reset()
        with pytest.raises(InputError, match=r"actions must have shape \(2,\)"):
            env.step(np.zeros(shape, np.int64))


def test_steps_out_of_order_are_refused(make_quick):
    act = np.zeros(2, np.int64)
    with make_quick([toys.Clockwork] * 2) as env:
        with pytest.raises(EnvError, match="must be reset"):
            env.step(act)
        env.reset()
        with pytest.raises(EnvError, match="without step_async"):
            env.step_wait()
        env.step_async(act)
        with pytest.raises(EnvError, match="again"):
            env.step_async(act)
        with pytest.raises(EnvError, match="under way"):
            env.reset()
        env.step_wait()
    with pytest.raises(EnvError, match="closed"):
        env.step(act)
    with pytest.raises(EnvError, match="closed"):
        env.reset()
