"""EKFSubspace: warm-up, subspace and filter."""

import numpy as np
import pytest

from glcb.policies.neural import network
from glcb.policies.neural.ekf_subspace import WARM_UP_ROUNDS, EKFSubspace, KalmanFilter
from tests.policies.cases import learned_state, trained

pytestmark = pytest.mark.baselines

X = np.array([0.3, 0.9], np.float32)


def after_warm_up(seed: int = 4, **settings: float) -> EKFSubspace:
    policy = EKFSubspace(3, 2, seed=seed, **settings)  # type: ignore[arg-type]
    trained(policy, 3 * WARM_UP_ROUNDS)
    return policy


def test_the_filter_is_bayesian_linear_regression() -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(30, 4)), rng.normal(size=30)
    own = KalmanFilter(4, prior_variance=0.5, noise_variance=0.2)
    for z, target in zip(inputs, targets, strict=True):
        own.update(z, float(target - z @ own.mean))
    precision = np.eye(4) / 0.5 + inputs.T @ inputs / 0.2
    np.testing.assert_allclose(own.factor @ own.factor.T, np.linalg.inv(precision), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(own.mean, np.linalg.solve(precision, inputs.T @ targets / 0.2), rtol=1e-9)


def test_the_policy_is_bayesian_linear_regression_if_the_network_is_linear_in_the_subspace() -> None:
    policy = after_warm_up(dimension=4, prior_variance=0.5, noise_variance=0.2)
    # Directions that change only the outputs of arm 1, in which the network is linear.
    outer = 2 * network.HIDDEN + network.HIDDEN
    policy._basis[:] = 0
    for direction, unit in enumerate(range(4)):
        policy._basis[direction, outer + 3 * unit + 1] = 1
    weights = policy._at(np.zeros(4))
    rng = np.random.default_rng(0)
    rows, targets = rng.random((40, 2)).astype(np.float32), rng.integers(2, size=40)
    for x, target in zip(rows, targets, strict=True):
        policy.learn(x, 1, target)
    inputs = network.hidden(weights, rows)[:, :4].astype(np.float64)
    errors = targets - network.values(weights, rows)[:, 1]
    precision = np.eye(4) / 0.5 + inputs.T @ inputs / 0.2
    expected = np.linalg.solve(precision, inputs.T @ errors / 0.2)
    np.testing.assert_allclose(policy._filter.mean, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        policy._filter.factor @ policy._filter.factor.T, np.linalg.inv(precision), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("arm", [0, 2])
def test_the_gradient_in_closed_form_is_that_of_automatic_differentiation(arm: int) -> None:
    import jax

    policy = trained(after_warm_up(), 40)
    assert isinstance(policy, EKFSubspace)

    def output(position: np.ndarray) -> object:
        vector = policy._origin + position @ policy._basis
        return network.values(policy._unflatten(vector), X)[arm]  # type: ignore[arg-type]

    expected = jax.grad(output)(policy._filter.mean.astype(np.float32))
    own = policy._basis @ policy._gradient(X, arm)
    np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-5)


def test_the_warm_up_chooses_every_arm_in_turn() -> None:
    policy = EKFSubspace(3, 2)
    chosen = []
    for _ in range(3 * WARM_UP_ROUNDS):
        chosen.append(policy.decide(X).arm)
        policy.learn(X, chosen[-1], 1)
    assert chosen == [0, 1, 2] * WARM_UP_ROUNDS
    assert np.isfinite(policy.estimate(X).bonuses).all()


def test_the_warm_up_lasts_until_its_rewards_have_arrived() -> None:
    policy = EKFSubspace(3, 2)
    for step in range(3 * WARM_UP_ROUNDS + 4):
        policy.count_decision(X, step % 3)
    assert policy.decide(X).arm == 1
    assert np.isinf(policy.estimate(X).bonuses).any()


def test_data_are_stored_during_the_warm_up_only() -> None:
    policy = trained(EKFSubspace(3, 2), 3 * WARM_UP_ROUNDS - 1)
    assert len(policy.snapshot().arrays["rewards"]) == 3 * WARM_UP_ROUNDS - 1
    trained(policy, 1)
    assert len(policy.snapshot().arrays["rewards"]) == 0
    size = sum(map(len, learned_state(policy).values()))
    trained(policy, 50)
    assert sum(map(len, learned_state(policy).values())) == size


def test_the_directions_are_orthonormal_and_contain_the_path() -> None:
    policy = EKFSubspace(3, 2, dimension=30, seed=4)
    trained(policy, 3 * WARM_UP_ROUNDS - 1)
    start = policy._origin.copy()
    trained(policy, 1)
    np.testing.assert_allclose(policy._basis @ policy._basis.T, np.eye(30), atol=1e-4)
    step = (start - policy._origin).astype(np.float64)
    within = policy._basis.T.astype(np.float64) @ (policy._basis @ step)
    assert np.linalg.norm(step - within) < 0.05 * np.linalg.norm(step)
    assert np.linalg.norm(step) > 0


def test_the_descent_fits_the_data_of_the_warm_up() -> None:
    policy, rng = EKFSubspace(2, 2, rewards=(0.0, 2.0)), np.random.default_rng(0)
    rows = rng.random((2 * WARM_UP_ROUNDS, 2)).astype(np.float32)
    for step, x in enumerate(rows):
        policy.learn(x, step % 2, 2 * float(x[step % 2]))
    errors = [2 * float(x[s % 2]) - policy.estimate(x).values[s % 2] for s, x in enumerate(rows)]
    assert np.std(errors) < 0.2


def test_draws_have_the_covariance_of_the_filter() -> None:
    policy = trained(after_warm_up(prior_variance=1e-4), 20)
    assert isinstance(policy, EKFSubspace)
    gradients = np.stack([policy._basis @ policy._gradient(X, arm) for arm in range(3)])
    widths = np.linalg.norm(gradients @ policy._filter.factor, axis=1)
    draws = np.array([policy.estimate(X).bonuses for _ in range(2000)])
    np.testing.assert_allclose(draws.std(axis=0), widths, rtol=0.15)


def test_the_subspace_has_at_most_as_many_directions_as_the_network_has_weights() -> None:
    assert EKFSubspace(1, 1, dimension=500)._basis.shape == (151, 151)
