import numpy as np
import pytest
from gymnasium import spaces

from sweeper.core.errors import InputError
from sweeper.envs.normalize import Moments, ObservationNormalizer, RewardNormalizer

SPACE = spaces.Box(-np.inf, np.inf, (3,), np.float32)


def batches(sizes=(1, 1, 4, 7, 2), shape=(3,), offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return [(offset + rng.normal(size=(n, *shape))).astype(np.float32) for n in sizes]


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_moments_are_those_of_all_values_together(offset):
    parts = batches(offset=offset)
    moments = Moments.zero((3,))
    for part in parts:
        moments = moments.merge(part)
    everything = np.concatenate(parts).astype(np.float64)
    assert moments.count == len(everything)
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, everything.var(0), rtol=1e-9)


def test_observations_come_out_with_mean_0_and_deviation_1():
    parts = batches(sizes=(64,) * 20, offset=5.0)
    normalizer = ObservationNormalizer(SPACE)
    for part in parts:
        normalizer.update(part)
    normal = normalizer.normalize(np.concatenate(parts))
    assert normal.dtype == np.float32
    np.testing.assert_allclose(normal.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(normal.std(0), 1, atol=1e-5)


def test_normalizing_alone_changes_no_statistics():
    normalizer = ObservationNormalizer(SPACE)
    normalizer.update(batches()[3])
    before = normalizer.moments
    normalizer.normalize(np.full((2, 3), 100.0, np.float32))
    assert normalizer.moments is before


def test_outliers_are_clipped_to_10():
    normalizer = ObservationNormalizer(SPACE)
    normalizer.update(batches()[3])
    far = np.array([[1e6, -1e6, 0]], np.float32)
    np.testing.assert_array_equal(normalizer.normalize(far)[0, :2], [10, -10])


def test_a_constant_component_becomes_zero():
    normalizer = ObservationNormalizer(SPACE)
    for _ in range(3):
        normalizer.update(np.full((4, 3), 7.25, np.float32))
    np.testing.assert_array_equal(normalizer.normalize(np.full((1, 3), 7.25)), np.zeros((1, 3)))


def test_bytes_are_normalized_without_wrapping_around():
    image = spaces.Box(0, 255, (2, 2), np.uint8)
    normalizer = ObservationNormalizer(image)
    frames = np.random.default_rng(0).integers(0, 256, (50, 2, 2), np.uint8)
    normalizer.update(frames)
    np.testing.assert_allclose(normalizer.moments.mean, frames.mean(0))
    np.testing.assert_allclose(normalizer.moments.variance, frames.var(0), rtol=1e-12)


def test_restored_statistics_normalize_alike():
    normalizer = ObservationNormalizer(SPACE)
    for part in batches():
        normalizer.update(part)
    restored = ObservationNormalizer(SPACE, normalizer.moments)
    probe = batches(seed=9)[2]
    np.testing.assert_array_equal(normalizer.normalize(probe), restored.normalize(probe))


def test_only_box_observations_are_normalized():
    with pytest.raises(InputError, match="not Discrete"):
        ObservationNormalizer(spaces.Discrete(3))


def discounted_returns(rewards, ends, gamma):
    """Every value of R = gamma R + r, reset after an end: [T, N]."""
    running, seen = np.zeros(rewards.shape[1]), []
    for reward, ended in zip(rewards, ends, strict=True):
        running = gamma * running + reward
        seen.append(running.copy())
        running[ended] = 0
    return np.array(seen)


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_rewards_are_divided_by_the_deviation_of_the_discounted_return(end):
    rng = np.random.default_rng(0)
    rewards = rng.normal(1.0, 2.0, (40, 3)).astype(np.float32)
    ends = rng.random((40, 3)) < 0.2
    no = np.zeros(3, bool)
    normalizer = RewardNormalizer(3, 0.9)
    normal = [
        normalizer(r, *((e, no) if end == "terminated" else (no, e)))
        for r, e in zip(rewards, ends, strict=True)
    ]
    returns = discounted_returns(rewards.astype(np.float64), ends, 0.9)
    for t in range(1, 40):
        expected = rewards[t] / np.sqrt(returns[: t + 1].var() + 1e-8)
        np.testing.assert_allclose(normal[t], np.clip(expected, -10, 10), rtol=1e-6)
    assert normal[0].dtype == np.float32


def test_groups_normalize_their_own_rows():
    rng = np.random.default_rng(0)
    reward, no = rng.normal(size=4).astype(np.float32), np.zeros(2, bool)
    normalizer = RewardNormalizer(4, 0.5)
    for _ in range(2):
        for rows in (slice(0, 2), slice(2, 4)):
            normalizer(reward[rows], no, no, rows)
    np.testing.assert_allclose(normalizer.state.discounted_return, 1.5 * reward, rtol=1e-6)


def test_restored_reward_state_normalizes_alike():
    reward, no = np.array([1.0, -2.0], np.float32), np.zeros(2, bool)
    one, other = RewardNormalizer(2, 0.9), RewardNormalizer(2, 0.9)
    for _ in range(3):
        one(reward, no, no)
    other.state = one.state
    np.testing.assert_array_equal(one(reward * 3, no, no), other(reward * 3, no, no))
    np.testing.assert_array_equal(one(reward, no, no), other(reward, no, no))
