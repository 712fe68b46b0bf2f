"""LinFullPost: the posterior against its closed form."""

import numpy as np
import pytest

from glcb._arrays import Float64
from glcb.policies.linear.lin_full_post import LinFullPost
from glcb.policies.linear.normal_inverse_gamma import NormalInverseGamma

ARMS, WIDTH, ROWS = 3, 4, 200


def some_data(seed: int) -> tuple[Float64, np.ndarray, Float64]:
    rng = np.random.default_rng(seed)
    z = rng.random((ROWS, WIDTH))
    arms = rng.integers(ARMS, size=ROWS)
    return z, arms, z @ [1.0, -2.0, 0.5, 3.0] + arms + rng.normal(0, 0.3, ROWS)


def closed_form(z: Float64, rewards: Float64) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return μ, P⁻¹, a and b by their definitions."""
    precision = 0.25 * np.eye(WIDTH) + z.T @ z
    mean = np.linalg.solve(precision, z.T @ rewards)
    b = float(6 + 0.5 * (rewards @ rewards - mean @ precision @ mean))
    return mean, np.linalg.inv(precision), 6 + len(rewards) / 2, b


@pytest.mark.parametrize("at_once", [True, False])
def test_the_posterior_equals_its_closed_form(at_once: bool) -> None:
    z, arms, rewards = some_data(0)
    posterior = NormalInverseGamma(ARMS, WIDTH)
    if at_once:
        posterior.refit(z, arms, rewards)
    else:
        for row, arm, reward in zip(z, arms, rewards, strict=True):
            posterior.learn(row, int(arm), float(reward))
    query = np.array([0.3, 0.1, 0.9, 1.0])
    means, widths = posterior.means_and_widths(query)
    shapes, rates = posterior.noise()
    for arm in range(ARMS):
        mean, covariance, a, b = closed_form(z[arms == arm], rewards[arms == arm])
        assert means[arm] == pytest.approx(mean @ query)
        assert widths[arm] == pytest.approx(query @ covariance @ query)
        assert (shapes[arm], rates[arm]) == pytest.approx((a, b))


def test_the_prior_is_that_of_the_library() -> None:
    posterior = NormalInverseGamma(ARMS, WIDTH)
    means, widths = posterior.means_and_widths(np.ones(WIDTH))
    shapes, rates = posterior.noise()
    assert means.tolist() == [0.0] * ARMS
    assert widths.tolist() == [4.0 * WIDTH] * ARMS
    assert shapes.tolist() == rates.tolist() == [6.0] * ARMS


def test_draws_have_the_mean_and_variance_of_the_posterior() -> None:
    z, arms, rewards = some_data(1)
    posterior = NormalInverseGamma(ARMS, WIDTH)
    posterior.refit(z, arms, rewards)
    means, widths = posterior.means_and_widths(np.array([0.3, 0.1, 0.9, 1.0]))
    rng = np.random.default_rng(0)
    drawn = np.array([posterior.draw(means, widths, rng) for _ in range(20_000)])
    shapes, rates = posterior.noise()
    variances = rates / (shapes - 1) * widths  # the mean of an inverse gamma is b / (a − 1)
    np.testing.assert_allclose(drawn.mean(axis=0), means, atol=5 * np.sqrt(variances / 20_000).max())
    np.testing.assert_allclose(drawn.var(axis=0), variances, rtol=0.06)


def test_values_are_predictions_of_regressions_with_an_intercept() -> None:
    policy = LinFullPost(2, 1, rewards=(0.0, 5.0))
    for x in np.linspace(0, 1, 400):
        policy.learn([x], 0, 1 + 3 * x)
        policy.learn([x], 1, 2.0)
    values = policy.decide([0.5]).values
    np.testing.assert_allclose(values, [2.5, 2.0], atol=0.02)
