"""BBB: the loss against a direct transcription, and deterministic biases."""

import math

import numpy as np
import pytest

from glcb.policies.buffer import Batch
from glcb.policies.neural.bbb import BBB, _divergence

pytestmark = pytest.mark.baselines

X = np.array([0.1, 0.5, 0.9], np.float32)


def test_divergence_is_that_of_two_normals() -> None:
    # One weight, N(0.3, 0.2²) from N(0, 2 / 1).
    weights = {"inner": np.array([[0.3]]), "log_inner": np.array([[math.log(0.2)]])}
    expected = math.log(math.sqrt(2) / 0.2) + (0.2**2 + 0.3**2) / (2 * 2) - 0.5
    assert float(_divergence(weights, "inner")) == pytest.approx(expected, rel=1e-5)


def test_loss_is_the_negative_evidence_lower_bound() -> None:
    policy = BBB(2, 3, seed=1)
    w = policy._networks[0].weights
    rng = np.random.default_rng(0)
    batch = Batch(rng.random((5, 3)), np.array([0, 1, 1, 0, 1]), rng.random(5))
    noise = {"inner": rng.standard_normal((5, 50)), "outer": rng.standard_normal((5, 2))}
    layer = batch.contexts
    for name in ("inner", "outer"):
        deviation = np.sqrt(layer**2 @ np.exp(w[f"log_{name}"]) ** 2 + 1e-6)
        layer = layer @ w[name] + w[f"{name}_bias"] + deviation * noise[name]
        layer = np.maximum(layer, 0) if name == "inner" else layer
    error = layer[np.arange(5), batch.arms] - batch.rewards
    log_likelihood = -0.5 * math.log(2 * math.pi) - math.log(0.1) - error**2 / (2 * 0.1**2)
    divergence = sum(float(_divergence(w, name)) for name in ("inner", "outer"))
    bound = log_likelihood.mean() - divergence / 77
    constant = -0.5 * math.log(2 * math.pi) - math.log(0.1)
    assert float(BBB._loss(w, batch, 77, noise)) == pytest.approx(constant - bound, rel=1e-4)


def test_initial_deviations_are_small_and_biases_are_deterministic() -> None:
    weights = BBB(3, 40)._networks[0].weights
    assert set(weights) == {"inner", "inner_bias", "outer", "outer_bias", "log_inner", "log_outer"}
    assert weights["inner"].std() == pytest.approx(0.05, rel=0.1)
    assert weights["log_inner"].mean() == pytest.approx(-5, abs=0.02)


def test_decisions_draw_the_weights() -> None:
    policy = BBB(2, 3)
    weights = policy._networks[0].weights
    for name in ("log_inner", "log_outer"):
        weights[name][:] = -100
    values = policy.decide(X).values
    assert {policy._predict(X)[1].tobytes() for _ in range(5)} == {values.astype(np.float32).tobytes()}
    weights["log_inner"][:] = -1
    assert len({policy._predict(X)[1].tobytes() for _ in range(5)}) == 5
