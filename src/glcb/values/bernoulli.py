"""Rewards of 0 or 1: one network per arm, whose probability is the value."""

import math

import numpy as np

from glcb._compile import kernel
from glcb._state import State
from glcb._types import Float32, Float64, Int64
from glcb.values.base import Expected


@kernel
def _moments(probabilities: Float32, values: Float64, deviations: Float64) -> None:
    for row in range(values.size):
        p = np.float64(probabilities[row, 0])
        values[row] = p
        deviations[row] = math.sqrt(p * (1 - p))


class Bernoulli:
    """One network per arm, nothing to remember beside."""

    networks_per_arm = 1
    _only = np.zeros(1, np.int64)

    def __init__(self, arms: int) -> None:
        self.outcomes: Float64 = np.tile([0.0, 1.0], (arms, 1))

    def expected(self, probabilities: Float32) -> Expected:
        """Return the probability of 1 and the deviation that follows from it."""
        expected = Expected(np.empty(len(probabilities)), np.empty(len(probabilities)))
        _moments(probabilities, *expected)
        return expected

    def slopes(self, here: Float64, there: Float64) -> Float64:
        """Return 1 for each arm: its value is the probability itself."""
        return np.ones_like(here)

    def distributions(self, probabilities: Float32) -> Float64:
        """Return the probability of 0 and of 1, one row per arm."""
        one = probabilities[:, 0].astype(np.float64)
        return np.stack([1 - one, one], axis=1)

    def targets(self, arm: int, reward: float) -> tuple[Int64, Float32]:
        """Return the arm's only network and the reward itself."""
        return self._only, np.array([reward], np.float32)

    def learn(self, arm: int, reward: float) -> None:
        """Remember nothing: the networks know it all."""

    def forget(self) -> None:
        """Have nothing to forget."""

    def rearrange(self, sources: Int64) -> None:
        """Have as many arms as ``sources``."""
        self.outcomes = np.tile([0.0, 1.0], (sources.size, 1))

    def state(self) -> State:
        """Return nothing."""
        return {}

    def restore(self, state: State) -> None:
        """Take over nothing."""
