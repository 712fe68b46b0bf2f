"""Ridge regression on random Fourier features: the kernel, the length scale, the bonus and the noise."""

from typing import Any

import numpy as np
import pytest

from glcb._arrays import Float32, Float64
from glcb.policies import make_policy
from glcb.policies.linear.random_features import COSINES, FIRST_CONTEXTS, RandomFeaturePolicy, RandomFeatures

NAMES = ["rff-ucb", "rff-ucb-sd"]


def contexts(count: int, features: int = 3, seed: int = 0) -> Float32:
    return np.random.default_rng(seed).random((count, features), np.float32)


def taught(name: str, rows: Float32, rewards: Float64, **settings: Any) -> RandomFeaturePolicy:
    """Teach the rewards to arm 0, 1, 0, 1, …"""
    policy = make_policy(name, 2, rows.shape[1], rewards=(-2.0, 4.0), **settings)
    assert isinstance(policy, RandomFeaturePolicy)
    for step, (row, reward) in enumerate(zip(rows, rewards, strict=True)):
        policy.learn(row, step % 2, 6 * reward - 2)
    return policy


def direct(policy: RandomFeaturePolicy, rows: Float32, rewards: Float64) -> tuple[Float64, Float64]:
    """Return the weights and the inverse of one arm by a direct solution."""
    inputs = np.array([policy._map(row) for row in rows]).reshape(len(rows), policy._width)
    inverse = np.linalg.inv(inputs.T @ inputs + policy.ridge * np.eye(inputs.shape[1]))
    return inverse @ (rewards @ inputs), inverse


def test_inner_products_of_cosines_approximate_a_gaussian_kernel() -> None:
    rows = contexts(30)
    estimates = []
    for seed in range(40):
        features = RandomFeatures(3, seed)
        features.length_scale[0] = 0.7
        cosines = np.array([features(row) for row in rows])[:, :COSINES]
        estimates.append(cosines @ cosines.T)
    distances = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(np.mean(estimates, axis=0), np.exp(-distances / (2 * 0.7**2)), atol=0.06)


def test_slopes_add_up_to_the_change_of_every_entry() -> None:
    features = RandomFeatures(4, 0)
    start, end = contexts(2, 4)
    for x in (end, start, start + np.float32(1e-7)):
        slopes = features.slopes(x, start)
        np.testing.assert_allclose(
            slopes @ (x.astype(np.float64) - start), features(x) - features(start), atol=1e-9
        )


@pytest.mark.parametrize("name", NAMES)
def test_the_length_scale_is_the_median_distance_of_the_first_contexts(name: str) -> None:
    rows = contexts(FIRST_CONTEXTS + 20)
    policy = taught(name, rows, np.zeros(len(rows)))
    first = rows[:FIRST_CONTEXTS]
    distances = [np.linalg.norm(a - b) for i, a in enumerate(first) for b in first[:i]]
    assert policy._map.length_scale[0] == pytest.approx(np.median(distances), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_equal_contexts_leave_the_length_scale_as_it_was(name: str) -> None:
    rows = np.full((FIRST_CONTEXTS + 1, 3), 0.25, np.float32)
    policy = taught(name, rows, np.zeros(len(rows)))
    assert policy._map.length_scale[0] == RandomFeatures(3, 0).length_scale[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [FIRST_CONTEXTS - 10, FIRST_CONTEXTS, FIRST_CONTEXTS + 90])
def test_the_regressions_equal_a_direct_solution(name: str, count: int) -> None:
    rows, rewards = contexts(count), np.random.default_rng(1).random(count)
    policy = taught(name, rows, rewards)
    for arm in range(2):
        weights, inverse = direct(policy, rows[arm::2], rewards[arm::2])
        np.testing.assert_allclose(policy._weights[arm], weights, atol=1e-9)
        np.testing.assert_allclose(policy._inverses[arm], inverse, atol=1e-9)


def test_an_arm_copied_among_the_first_contexts_keeps_its_share_of_them() -> None:
    rows, rewards = contexts(FIRST_CONTEXTS), np.random.default_rng(1).random(FIRST_CONTEXTS)
    policy = taught("rff-ucb-sd", rows[:-1], rewards[:-1])
    policy.add_arm("twin", like=1)
    policy.remove_arm(0)
    policy.learn(rows[-1], 1, 6 * rewards[-1] - 2)
    original, _ = direct(policy, rows[1::2], rewards[1::2])
    twin, _ = direct(policy, rows[1:-1:2], rewards[1:-1:2])
    np.testing.assert_allclose(policy._weights, [original, twin], atol=1e-9)


def test_the_bonus_at_a_new_input_is_beta_times_its_length() -> None:
    policy = taught("rff-ucb", contexts(0), np.zeros(0), beta=0.7)
    x = contexts(1)[0]
    np.testing.assert_allclose(
        policy.estimate(x).bonuses, 0.7 * 6 * np.linalg.norm(policy._map(x)), rtol=1e-12
    )


def test_the_noise_is_estimated_from_the_errors_of_earlier_predictions() -> None:
    rows = contexts(FIRST_CONTEXTS + 60)
    rewards = np.random.default_rng(2).random(len(rows))
    policy = taught("rff-ucb-sd", rows, rewards)
    own, targets = rows[::2], rewards[::2]
    total = 0.0
    for step in range(len(own)):
        weights, inverse = direct(policy, own[:step], targets[:step])
        z = policy._map(own[step])
        total += (targets[step] - weights @ z) ** 2 / (1 + z @ inverse @ z)
    deviation = np.sqrt((0.25 + total) / (len(own) + 1))
    x = contexts(1, seed=5)[0]
    _, inverse = direct(policy, own, targets)
    z = policy._map(x)
    assert policy.estimate(x).bonuses[0] == pytest.approx(6 * deviation * np.sqrt(z @ inverse @ z), rel=1e-9)


def test_the_deviation_of_a_predictable_arm_has_a_lower_bound() -> None:
    policy = taught("rff-ucb-sd", contexts(400), np.ones(400))
    x = contexts(1)[0]
    z = policy._map(x)
    expected = 6 * 0.14 * np.sqrt(z @ policy._inverses[0] @ z)
    assert policy.estimate(x).bonuses[0] == pytest.approx(expected, rel=1e-9)
