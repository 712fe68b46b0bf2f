"""RMS, and the base class of the neural policies."""

import numpy as np
import pytest

from glcb.policies.neural import network
from glcb.policies.neural.rms import RMS
from tests.policies.cases import trained

pytestmark = pytest.mark.baselines


def test_initial_weights_are_those_of_the_library() -> None:
    weights = RMS(4, 30)._networks[0].weights
    assert {name: array.shape for name, array in weights.items()} == network.shapes(30, 4)
    for name in ("inner", "outer"):
        assert 0.27 < np.abs(weights[name]).max() <= 0.3
        assert abs(weights[name].mean()) < 0.05
    assert not weights["inner_bias"].any()
    assert not weights["outer_bias"].any()


def test_training_happens_after_every_fiftieth_reward() -> None:
    policy = RMS(2, 2)
    changes = []
    for step in range(1, 151):
        before = policy._networks[0].weights
        policy.learn([0.5, step / 200], step % 2, step % 2)
        if policy._networks[0].weights is not before:
            changes.append(step)
    assert changes == [50, 100, 150]


def test_the_choice_is_greedy_on_the_forward_pass() -> None:
    policy = trained(RMS(3, 2, seed=4), 60)
    assert isinstance(policy, RMS)
    w = {name: array.astype(np.float64) for name, array in policy._networks[0].weights.items()}
    x = np.array([0.2, 0.8])
    expected = np.maximum(x @ w["inner"] + w["inner_bias"], 0) @ w["outer"] + w["outer_bias"]
    decision = policy.decide(x)
    np.testing.assert_allclose(decision.values, expected, rtol=1e-4, atol=1e-5)
    assert not decision.bonuses.any()
    assert decision.arm == expected.argmax()
