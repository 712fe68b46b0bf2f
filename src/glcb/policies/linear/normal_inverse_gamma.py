"""Bayesian linear regression of each arm's reward with unknown noise: a normal-inverse-gamma posterior.

For an arm with inputs Z and rewards y, and the prior λ = 0.25, a0 = b0 = 6 of the Deep Bayesian Bandits
library (Riquelme, Tucker, Snoek 2018):

    P = λ I + Z'Z     μ = P⁻¹ Z'y     a = a0 + n / 2     b = b0 + (y'y − μ'Pμ) / 2

The noise variance is b / Gamma(a). Given the variance, the weights are N(μ, variance · P⁻¹).
"""

import numpy as np

from glcb._arrays import Arrays, Float64, Int64, copy_into, take_rows

PRIOR_PRECISION = 0.25
PRIOR_SHAPE = 6.0
PRIOR_RATE = 6.0


class NormalInverseGamma:
    """One posterior per arm over ``width`` weights, kept up to date by rank-one updates in float64."""

    def __init__(self, arms: int, width: int) -> None:
        self._inverses: Float64 = np.empty((arms, width, width))
        self._moments: Float64 = np.empty((arms, width))
        self._squares: Float64 = np.empty(arms)
        self._counts: Int64 = np.empty(arms, np.int64)
        self._means: Float64 = np.empty((arms, width))
        self._reset()

    @property
    def means(self) -> Float64:
        """μ of each arm."""
        return self._means

    def learn(self, z: Float64, arm: int, reward: float) -> None:
        """Update the posterior of ``arm`` with one reward."""
        inverse = self._inverses[arm]
        gain = inverse @ z
        inverse -= np.outer(gain, gain / (1 + gain @ z))
        self._moments[arm] += reward * z
        self._squares[arm] += reward * reward
        self._counts[arm] += 1
        self._means[arm] = inverse @ self._moments[arm]

    def refit(self, z: Float64, arms: Int64, rewards: Float64) -> None:
        """Refit all posteriors to this data, one row per reward."""
        self._reset()
        for arm in np.unique(arms):
            own = arms == arm
            inputs, outcomes = z[own], rewards[own]
            precision = inputs.T @ inputs + PRIOR_PRECISION * np.eye(z.shape[1])
            self._inverses[arm] = np.linalg.inv(precision)
            self._moments[arm] = outcomes @ inputs
            self._squares[arm] = outcomes @ outcomes
            self._counts[arm] = outcomes.size
            self._means[arm] = self._inverses[arm] @ self._moments[arm]

    def means_and_widths(self, z: Float64) -> tuple[Float64, Float64]:
        """Return each arm's expected reward μ'z and z'P⁻¹z, which shrinks with every similar input."""
        return self._means @ z, (self._inverses @ z) @ z

    def noise(self) -> tuple[Float64, Float64]:
        """Return a and b, the shape and rate of each arm's noise variance."""
        explained = np.einsum("ai,ai->a", self._means, self._moments)  # μ'Pμ, because Pμ = Z'y
        return PRIOR_SHAPE + self._counts / 2, PRIOR_RATE + (self._squares - explained) / 2

    def draw(self, means: Float64, widths: Float64, rng: np.random.Generator) -> Float64:
        """Draw each arm's noise variance and then z·weights, which is N(μ'z, variance · z'P⁻¹z)."""
        shapes, rates = self.noise()
        variances = rates / rng.standard_gamma(shapes)
        return means + rng.standard_normal(means.size) * np.sqrt(variances * widths)

    def reorder(self, sources: Int64) -> None:
        """Give arm j the posterior of arm ``sources[j]``, or the prior for −1.

        All arrays are replaced and none is changed in place, so that a shallow copy keeps the old order.
        """
        prior = np.eye(self._inverses.shape[1]) / PRIOR_PRECISION
        self._inverses = take_rows(self._inverses, sources, prior)
        self._moments = take_rows(self._moments, sources, 0)
        self._squares = take_rows(self._squares, sources, 0)
        self._counts = take_rows(self._counts, sources, 0)
        self._means = take_rows(self._means, sources, 0)

    def snapshot(self) -> Arrays:
        """Return the arrays that hold the posteriors."""
        return {
            "inverses": self._inverses,
            "moments": self._moments,
            "squares": self._squares,
            "counts": self._counts,
            "means": self._means,
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise ValueError or KeyError if it is invalid."""
        copy_into(self.snapshot(), arrays)

    def _reset(self) -> None:
        self._inverses[...] = np.eye(self._inverses.shape[1]) / PRIOR_PRECISION
        for array in (self._moments, self._squares, self._counts, self._means):
            array[...] = 0
