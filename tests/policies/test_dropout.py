"""Dropout: a fifth of the hidden units is dropped, in training and in decisions."""

import numpy as np
import pytest

from glcb.policies.buffer import Batch
from glcb.policies.neural import network
from glcb.policies.neural.dropout import Dropout
from tests.policies.cases import trained

pytestmark = pytest.mark.baselines


def test_a_fifth_of_the_units_is_dropped_in_training() -> None:
    kept = Dropout(2, 2)._training_noise(np.random.default_rng(0))["kept"]
    assert kept.shape == (100, 512, network.HIDDEN)
    assert abs(kept.mean() - 0.8) < 0.002


def test_the_loss_is_that_of_the_network_with_dropped_units() -> None:
    policy = Dropout(2, 2, seed=3)
    weights = policy._networks[0].weights
    rng = np.random.default_rng(0)
    batch = Batch(rng.random((4, 2)), np.array([0, 1, 1, 0]), rng.random(4))
    kept = rng.random((4, network.HIDDEN)) < 0.8
    hidden = np.maximum(batch.contexts @ weights["inner"], 0) * kept / 0.8
    error = (hidden @ weights["outer"])[np.arange(4), batch.arms] - batch.rewards
    loss = Dropout._loss(weights, batch, 4, {"kept": kept})
    np.testing.assert_allclose(loss, (error**2).mean(), rtol=1e-5)


def test_decisions_vary_around_the_full_network() -> None:
    policy = trained(Dropout(3, 2), 60)
    decisions = [policy.decide([0.4, 0.6]) for _ in range(2000)]
    assert len({tuple(decision.values) for decision in decisions}) == 1
    bonuses = np.array([decision.bonuses for decision in decisions])
    assert (bonuses.std(axis=0) > 0).all()
    # Kept units are scaled up, so that the output is unbiased.
    np.testing.assert_allclose(bonuses.mean(axis=0), 0, atol=5 * bonuses.std(axis=0).max() / 2000**0.5)
