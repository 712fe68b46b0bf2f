"""ConstSGD: the step sizes of the reconstruction."""

from typing import Any

import numpy as np
import pytest

from glcb.policies import registry
from glcb.policies.neural.const_sgd import BURN_IN_STEPS, LARGEST_RATE, ConstSGD

pytestmark = pytest.mark.baselines


def updates_for(gradients: list[float], points: int) -> list[float]:
    optimizer: Any = ConstSGD._optimizer()
    state = optimizer.init({"w": np.zeros(1, np.float32)})
    steps = []
    for gradient in gradients:
        update, state = optimizer.update(
            {"w": np.array([gradient], np.float32)}, state, None, points=np.float32(points)
        )
        steps.append(float(update["w"][0]))
    return steps


def test_the_policy_is_described_as_a_reconstruction() -> None:
    entry = registry.get("constsgd")
    assert "reconstruct" in entry.summary.lower()
    assert "reconstruct" in entry.source


def test_steps_are_tiny_during_burn_in() -> None:
    steps = updates_for([1.0] * (BURN_IN_STEPS + 1), points=100)
    np.testing.assert_allclose(steps[:BURN_IN_STEPS], -1e-6, rtol=1e-5)
    np.testing.assert_allclose(steps[BURN_IN_STEPS], -LARGEST_RATE, rtol=1e-5)


def test_the_step_size_is_two_over_points_times_variance() -> None:
    rng = np.random.default_rng(0)
    gradients = rng.normal(1.0, 2.0, 3000).tolist()
    steps = updates_for(gradients, points=1000)
    rates = -np.array(steps[500:]) / gradients[500:]
    # The variance of the gradients is 4, estimated by an exponential average over about twenty of them.
    assert 0.7 < (2 / 1000 / rates).mean() / 4 < 1.1
