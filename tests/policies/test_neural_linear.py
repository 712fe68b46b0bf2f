"""NeuralLinear: regressions on the current hidden units."""

import numpy as np
import pytest

from glcb.policies.neural import network
from glcb.policies.neural.neural_linear import NeuralLinear
from tests.policies.cases import trained

pytestmark = pytest.mark.baselines


def regression(policy: NeuralLinear, x: np.ndarray, arm: int) -> float:
    """Return the arm's value from a regression of all its data on the current hidden units."""
    net = policy._networks[0]
    contexts, arms, rewards = net.data.all()
    z = network.hidden(net.weights, contexts).astype(np.float64)[arms == arm]
    weights = np.linalg.solve(0.25 * np.eye(network.HIDDEN) + z.T @ z, z.T @ rewards[arms == arm])
    return float(network.hidden(net.weights, x) @ weights)


def test_regressions_use_all_data_and_the_current_hidden_units() -> None:
    policy = NeuralLinear(3, 2)
    x = np.array([0.3, 0.9], np.float32)
    for steps in (30, 20, 33, 67):  # before a training, right after one, between two, after the third
        trained(policy, steps, seed=steps)
        expected = [regression(policy, x, arm) for arm in range(3)]
        np.testing.assert_allclose(policy.decide(x).values, expected, atol=1e-6)
    assert policy.updates == 150


def test_there_is_no_intercept() -> None:
    policy = NeuralLinear(2, 2)
    policy._networks[0].weights["inner"][:] = 0
    policy.learn([0.5, 0.5], 0, 1)
    decision = policy.decide([0.5, 0.5])
    assert decision.values.tolist() == [0.0, 0.0]
