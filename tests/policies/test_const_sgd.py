"""ConstSGD: the step sizes of the reconstruction."""

from typing import Any

import numpy as np

from glcb.policies import registry
from glcb.policies.neural.const_sgd import BURN_IN_STEPS, LARGEST_RATE, ConstSGD


def steps_of(gradients: list[float], points: int) -> list[float]:
    optimizer: Any = ConstSGD._optimizer()
    memory = optimizer.init({"w": np.zeros(1, np.float32)})
    taken = []
    for gradient in gradients:
        update, memory = optimizer.update(
            {"w": np.array([gradient], np.float32)}, memory, None, points=np.float32(points)
        )
        taken.append(float(update["w"][0]))
    return taken


def test_it_is_called_a_reconstruction() -> None:
    entry = registry.get("constsgd")
    assert "reconstruct" in entry.line.lower()
    assert "reconstruct" in entry.source


def test_it_hardly_moves_while_it_burns_in() -> None:
    taken = steps_of([1.0] * (BURN_IN_STEPS + 1), points=100)
    np.testing.assert_allclose(taken[:BURN_IN_STEPS], -1e-6, rtol=1e-5)
    np.testing.assert_allclose(taken[BURN_IN_STEPS], -LARGEST_RATE, rtol=1e-5)


def test_the_step_size_is_two_over_points_times_variance() -> None:
    rng = np.random.default_rng(0)
    gradients = rng.normal(1.0, 2.0, 3000).tolist()
    taken = steps_of(gradients, points=1000)
    rates = -np.array(taken[500:]) / gradients[500:]
    # An exponential mean over some twenty gradients estimates the variance, 4.
    assert 0.7 < (2 / 1000 / rates).mean() / 4 < 1.1
