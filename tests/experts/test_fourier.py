"""Random Fourier features: their length follows the contexts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glcb.experts.fourier import CONTEXTS_TO_MEASURE, FourierFeatures, length, measure


def measured(features: int, count: int, seed: int) -> FourierFeatures:
    rng = np.random.default_rng(seed)
    fourier = FourierFeatures(features, count, rng)
    for x in rng.random((CONTEXTS_TO_MEASURE, features), np.float32):
        measure(x, fourier.arrays)
    return fourier


def test_random_features_are_zero_until_the_length_is_measured() -> None:
    fourier = FourierFeatures(2, 5, np.random.default_rng(0))
    x = np.array([0.25, 1.0], np.float32)
    for _ in range(CONTEXTS_TO_MEASURE - 1):
        measure(x, fourier.arrays)
    np.testing.assert_array_equal(fourier.at(x), [0, 0, 0, 0, 0, -0.25, 0.5, 1])
    measure(x, fourier.arrays)
    assert fourier.at(x)[:5].all()


def test_the_squared_length_is_half_the_mean_squared_distance_of_successive_contexts() -> None:
    fourier, rng = FourierFeatures(3, 1, np.random.default_rng(0)), np.random.default_rng(1)
    contexts = rng.random((CONTEXTS_TO_MEASURE, 3), np.float32)
    for x in contexts:
        measure(x, fourier.arrays)
    np.testing.assert_array_equal(fourier.arrays.first, contexts)
    distances = np.diff(contexts.astype(float), axis=0)
    variances = [3 / 12, *(distances**2).sum(axis=1) / 2]
    assert length(fourier.arrays) == pytest.approx(math.sqrt(np.mean(variances)))


def test_a_random_feature_is_a_cosine() -> None:
    fourier = measured(4, 300, seed=2)
    x = np.random.default_rng(3).random(4, np.float32)
    angles = fourier.arrays.directions[:, :4] @ (x - 0.5) / length(fourier.arrays) + fourier.arrays.phases
    expected = math.sqrt(2 / 300) * np.cos(2 * math.pi * angles.astype(float))
    np.testing.assert_allclose(fourier.at(x)[:300], expected, atol=1e-6)


def test_products_of_features_approximate_a_gaussian_kernel() -> None:
    fourier = measured(3, 20_000, seed=4)
    a, b = np.random.default_rng(5).random((2, 3), np.float32)
    kernel = math.exp(-((a - b) ** 2).sum() / (2 * length(fourier.arrays) ** 2))
    assert fourier.at(a)[:20_000] @ fourier.at(b)[:20_000] == pytest.approx(kernel, abs=0.03)


@given(st.integers(1, 6), st.integers(0, 10**6), st.booleans())
def test_slopes_times_differences_are_the_differences_of_features(
    features: int, seed: int, same: bool
) -> None:
    fourier = measured(features, 20, seed)
    x, baseline = np.random.default_rng(seed).random((2, features), np.float32)
    baseline = x if same else baseline
    change = fourier.slopes(x, baseline) @ (x.astype(float) - baseline)
    np.testing.assert_allclose(change, fourier.at(x) - fourier.at(baseline), atol=2e-6)


def test_slopes_are_integrated_gradients() -> None:
    fourier = measured(2, 8, seed=6)
    x, baseline = np.array([0.9, 0.2], np.float32), np.array([0.1, 0.4], np.float32)
    tiny = 1e-3
    gradients = np.zeros((8, 2))
    for step in (np.arange(100) + 0.5) / 100:
        point = baseline + step * (x - baseline)
        for feature in range(2):
            shift = (tiny * np.eye(2)[feature]).astype(np.float32)
            up, down = fourier.at(point + shift), fourier.at(point - shift)
            gradients[:, feature] += (up - down)[:8] / (2 * tiny) / 100
    np.testing.assert_allclose(fourier.slopes(x, baseline)[:8], gradients, atol=5e-3)
