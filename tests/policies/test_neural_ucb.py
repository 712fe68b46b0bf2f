"""NeuralUCB and NeuralTS: gradient, precision, bonus and draw."""

import numpy as np
import pytest

from glcb._types import Rewards
from glcb.policies.neural import neural_tangent
from glcb.policies.neural.network import Weights
from glcb.policies.neural.neural_tangent import REGULARIZATION, NeuralTS, NeuralUCB, TangentPolicy
from tests.policies.cases import trained

pytestmark = pytest.mark.baselines

X = np.array([0.3, 0.9], np.float32)


def value(weights: Weights, x: np.ndarray, arm: int) -> float:
    """Return the value of one arm from the disjoint encoding, written out."""
    blocks = np.zeros(weights["inner"].shape[:2])
    blocks[arm] = x
    inputs = np.einsum("kf,kfh->h", blocks, weights["inner"]) + weights["inner_bias"]
    return float(np.maximum(inputs, 0) @ weights["outer"] + weights["outer_bias"][0])


def gradient_of(policy: TangentPolicy, x: np.ndarray, arm: int) -> dict[str, np.ndarray]:
    """Return the gradient of one arm's value by automatic differentiation, for the whole network."""
    import jax

    def output(weights: Weights) -> object:
        return neural_tangent.values_of(weights, x[None], np.array([arm]))[0]

    return {name: np.asarray(g) for name, g in jax.grad(output)(policy._networks[0].weights).items()}


def trained_policy(steps: int = 60, rewards: Rewards = "binary") -> NeuralUCB:
    policy = trained(NeuralUCB(3, 2, rewards=rewards, seed=4), steps)
    assert isinstance(policy, NeuralUCB)
    return policy


@pytest.mark.parametrize("steps", [10, 60])  # untrained and trained
def test_the_values_are_those_of_the_disjoint_encoding(steps: int) -> None:
    policy = trained_policy(steps)
    expected = [value(policy._networks[0].weights, X, arm) for arm in range(3)]
    np.testing.assert_allclose(policy.estimate(X).values, expected, rtol=1e-5)


def test_the_training_uses_the_same_values_as_the_decisions() -> None:
    policy = trained_policy()
    batch = neural_tangent.values_of(policy._networks[0].weights, np.stack([X] * 3), np.arange(3))
    np.testing.assert_allclose(policy.estimate(X).values, batch, rtol=1e-5)


@pytest.mark.parametrize("arm", [0, 2])
def test_the_gradient_in_closed_form_is_that_of_automatic_differentiation(arm: int) -> None:
    policy = trained_policy()
    expected = gradient_of(policy, X, arm)
    others = np.delete(expected["inner"], arm, axis=0)
    assert not others.any()
    for name, gradient in policy._gradient(X, arm).items():
        exact = expected[name][arm] if name == "inner" else expected[name]
        np.testing.assert_allclose(gradient, exact, rtol=1e-5, atol=1e-7)


def test_the_precision_is_the_sum_of_the_squared_gradients_at_the_decisions() -> None:
    policy, rng = NeuralUCB(3, 2, seed=1), np.random.default_rng(0)
    precision = {
        name: np.full(array.shape, REGULARIZATION) for name, array in policy._networks[0].weights.items()
    }
    for _ in range(120):  # with two trainings
        x, arm = rng.random(2).astype(np.float32), int(rng.integers(3))
        for name, gradient in gradient_of(policy, x, arm).items():
            precision[name] += gradient.astype(np.float64) ** 2
        policy.learn(x, arm, int(rng.integers(2)))
    for name, own in policy._variances.items():
        np.testing.assert_allclose(REGULARIZATION / own, precision[name], rtol=1e-4)


@pytest.mark.parametrize("rewards", ["binary", (-1.0, 3.0)])
def test_the_bonus_is_nu_times_the_width_of_the_gradient(rewards: Rewards) -> None:
    policy = trained_policy(rewards=rewards)
    policy.nu = 0.7
    scale = 1.0 if rewards == "binary" else 4.0
    for arm, bonus in enumerate(policy.estimate(X).bonuses):
        squares = sum(
            float((gradient.astype(np.float64) ** 2 * policy._variances[name]).sum())
            for name, gradient in gradient_of(policy, X, arm).items()
        )
        assert bonus == pytest.approx(0.7 * scale * np.sqrt(squares), rel=1e-4)


def test_neural_ts_draws_with_the_width_as_standard_deviation() -> None:
    policy = NeuralTS(3, 2, seed=4)
    trained(policy, 60)
    values, widths = policy._values_and_widths(X)
    draws = np.array([policy.decide(X).scores for _ in range(4000)])
    np.testing.assert_allclose(draws.std(axis=0), policy.nu * widths, rtol=0.06)
    assert (np.abs(draws.mean(axis=0) - values) < 5 * policy.nu * widths / np.sqrt(4000)).all()


def test_a_decision_shrinks_its_own_bonus_most() -> None:
    policy = trained_policy()
    before = policy.estimate(X).bonuses
    policy.count_decision(X, 1)
    ratios = policy.estimate(X).bonuses / before
    assert ratios.argmin() == 1
    assert (ratios < 1).all()


def test_without_exploration_the_choice_is_greedy() -> None:
    policy = trained(NeuralUCB(3, 2, nu=0), 60)
    assert not policy.estimate(X).bonuses.any()
