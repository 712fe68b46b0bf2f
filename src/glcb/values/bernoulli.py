"""Rewards of 0 or 1: one network per arm, whose probability is the value."""

import numpy as np

from glcb._types import Float32, Float64, Int64


class Bernoulli:
    """One network per arm."""

    networks_per_arm = 1
    outcomes = np.array([0.0, 1.0])
    _only = np.zeros(1, np.int64)

    def values(self, probabilities: Float32) -> Float64:
        """Return the expected reward of each arm."""
        return probabilities[:, 0].astype(np.float64)

    def distributions(self, probabilities: Float32) -> Float64:
        """Return the probability of 0 and of 1, one row per arm."""
        one = self.values(probabilities)
        return np.stack([1 - one, one], axis=1)

    def targets(self, reward: float) -> tuple[Int64, Float32]:
        """Return the arm's only network and the reward itself."""
        return self._only, np.array([reward], np.float32)
