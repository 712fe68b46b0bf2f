"""Bayesian linear regression of each arm's reward, with unknown noise: a normal-inverse-gamma posterior.

For an arm with inputs Z and rewards y, and the prior λ = 0.25, a0 = b0 = 6 of the Deep Bayesian Bandits
library (Riquelme, Tucker, Snoek 2018):

    P = λ I + Z'Z     μ = P⁻¹ Z'y     a = a0 + n / 2     b = b0 + (y'y − μ'Pμ) / 2

The noise variance is b / Gamma(a), and given it the weights are N(μ, variance · P⁻¹).
"""

import numpy as np

from glcb._arrays import State, fill, rearranged
from glcb._types import Float64, Int64

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
        self._forget()

    def learn(self, z: Float64, arm: int, reward: float) -> None:
        """Take in one reward of ``arm``."""
        inverse = self._inverses[arm]
        gain = inverse @ z
        inverse -= np.outer(gain, gain / (1 + gain @ z))
        self._moments[arm] += reward * z
        self._squares[arm] += reward * reward
        self._counts[arm] += 1
        self._means[arm] = inverse @ self._moments[arm]

    def learn_anew(self, z: Float64, arms: Int64, rewards: Float64) -> None:
        """Forget everything and take in one reward per row."""
        self._forget()
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
        """Return each arm's expected reward μ'z, and z'P⁻¹z, which shrinks with experience."""
        return self._means @ z, (self._inverses @ z) @ z

    @property
    def means(self) -> Float64:
        """μ of each arm."""
        return self._means

    def noise(self) -> tuple[Float64, Float64]:
        """Return a and b, the shape and rate of each arm's noise variance."""
        explained = np.einsum("ai,ai->a", self._means, self._moments)  # μ'Pμ, as Pμ = Z'y
        return PRIOR_SHAPE + self._counts / 2, PRIOR_RATE + (self._squares - explained) / 2

    def draw(self, means: Float64, widths: Float64, rng: np.random.Generator) -> Float64:
        """Draw each arm's noise variance and then z·weights, which is N(μ'z, variance · z'P⁻¹z)."""
        shapes, rates = self.noise()
        variances = rates / rng.standard_gamma(shapes)
        return means + rng.standard_normal(means.size) * np.sqrt(variances * widths)

    def rearrange(self, sources: Int64) -> None:
        """Let arm j have the posterior that arm ``sources[j]`` had, or the prior for −1.

        No array is changed in place, so a shallow copy keeps what was.
        """
        prior = np.eye(self._inverses.shape[1]) / PRIOR_PRECISION
        self._inverses = rearranged(self._inverses, sources, prior)
        self._moments = rearranged(self._moments, sources, 0)
        self._squares = rearranged(self._squares, sources, 0)
        self._counts = rearranged(self._counts, sources, 0)
        self._means = rearranged(self._means, sources, 0)

    def state(self) -> State:
        """Return the arrays that hold all of it."""
        return {
            "inverses": self._inverses,
            "moments": self._moments,
            "squares": self._squares,
            "counts": self._counts,
            "means": self._means,
        }

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError if it cannot be ours."""
        fill(self.state(), state)

    def _forget(self) -> None:
        self._inverses[...] = np.eye(self._inverses.shape[1]) / PRIOR_PRECISION
        for array in (self._moments, self._squares, self._counts, self._means):
            array[...] = 0
