"""ParamNoise: adaptation of the noise."""

import math

import numpy as np
import pytest

from glcb.policies.neural.param_noise import ParamNoise, divergence
from tests.policies.cases import trained

pytestmark = pytest.mark.baselines


def test_the_divergence_of_two_distributions() -> None:
    clean = np.log(np.array([[0.5, 0.5], [0.9, 0.1]], np.float32))
    noisy = np.log(np.array([[0.25, 0.75], [0.9, 0.1]], np.float32)) + 7
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert divergence(clean, noisy) == pytest.approx(expected / 2, rel=1e-5)


def test_divergence_of_large_outputs_is_finite() -> None:
    assert divergence(np.array([[900.0, 0.0]], np.float32), np.array([[0.0, 900.0]], np.float32)) == 900


def test_noise_grows_when_it_changes_little_and_shrinks_when_it_changes_much() -> None:
    policy = ParamNoise(5, 2)
    target = -math.log(1 - 0.1 + 0.1 / 5)
    policy._adapt(target * 0.999)
    assert policy._noise == pytest.approx(0.05 * 1.01)
    assert policy._epsilon == pytest.approx(0.1 * 0.99)
    target = -math.log(1 - 0.099 + 0.099 / 5)
    policy._adapt(target * 1.001)
    assert policy._noise == pytest.approx(0.05)
    assert policy._epsilon == pytest.approx(0.1 * 0.99**2)


def test_noise_adapts_once_per_training() -> None:
    policy = trained(ParamNoise(3, 2), 199)
    assert isinstance(policy, ParamNoise)
    assert policy._epsilon == pytest.approx(0.1 * 0.99**3)
    changes = math.log(policy._noise / 0.05) / math.log(1.01)
    assert round(changes) in (-3, -1, 1, 3)
    assert changes == pytest.approx(round(changes))


def test_every_weight_and_bias_gets_the_noise() -> None:
    policy = ParamNoise(4, 30)
    clean = policy._networks[0].weights
    drawn = policy._noisy(np.random.default_rng(0))
    differences = np.concatenate([(drawn[name] - clean[name]).ravel() for name in clean])
    assert (differences != 0).all()
    assert differences.std() == pytest.approx(0.05, rel=0.05)


def test_decisions_leave_the_weights_unchanged() -> None:
    policy = ParamNoise(4, 3)
    before = {name: array.copy() for name, array in policy._networks[0].weights.items()}
    scores = [policy.decide([0.1, 0.2, 0.3]).scores for _ in range(20)]
    assert len({tuple(score[1:]) for score in scores}) == 20
    assert all(np.array_equal(before[name], array) for name, array in policy._networks[0].weights.items())
