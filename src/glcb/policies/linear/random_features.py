"""Upper confidence bounds of ridge regressions on random Fourier features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, Int64, take_rows
from glcb._types import Arm, Rewards
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import LinearPolicy, pseudocounts
from glcb.policies.registry import register

COSINES = 128
FIRST_CONTEXTS = 50
"""The length scale is the median distance among this many contexts."""

_SMALLEST_CHANGE = 1e-6
"""Below this change of its argument, a cosine is replaced by its tangent."""


class RandomFeatures:
    """The map from a context to z. Its directions and phases depend only on the seed."""

    def __init__(self, features: int, seed: int) -> None:
        # A separate stream: the generator of the policy also breaks ties.
        rng = np.random.default_rng((seed, 1))
        self._directions: Float64 = rng.standard_normal((COSINES, features))
        self._phases: Float64 = rng.uniform(0, 2 * np.pi, COSINES)
        # Before any context is known: the expected distance of uniform contexts.
        self.length_scale: Float64 = np.array([np.sqrt(features / 6)])

    def __call__(self, x: Float32) -> Float64:
        """Return z."""
        center = x.astype(np.float64) - 0.5
        return np.concatenate((np.sqrt(2 / COSINES) * np.cos(self._arguments(center)), center, [1.0]))

    def slopes(self, x: Float32, baseline: Float32) -> Float64:
        """Return for each entry of z and each feature the mean derivative between ``baseline`` and ``x``.

        The mean is taken along the straight line, so that the slopes times x − baseline add up exactly to the
        change of z. For a cosine it has a closed form: Δcos / Δargument · direction.
        """
        start, end = (self._arguments(point.astype(np.float64) - 0.5) for point in (baseline, x))
        change = end - start
        small = np.abs(change) < _SMALLEST_CHANGE
        ratio = (np.cos(end) - np.cos(start)) / np.where(small, 1.0, change)
        ratio = np.sqrt(2 / COSINES) * np.where(small, -np.sin(start), ratio)
        cosines = ratio[:, None] * self._directions / self.length_scale
        size = self._directions.shape[1]
        return np.concatenate((cosines, np.eye(size), np.zeros((1, size))))

    def fit(self, contexts: Float32) -> None:
        """Set the length scale to the median distance between distinct contexts, if there are any."""
        rows, columns = np.triu_indices(len(contexts), 1)
        distances = np.linalg.norm(contexts[rows].astype(np.float64) - contexts[columns], axis=1)
        distances = distances[distances > 0]
        if distances.size:
            self.length_scale[0] = np.median(distances)

    def _arguments(self, center: Float64) -> Float64:
        return self._directions @ center / self.length_scale + self._phases


class RandomFeaturePolicy(LinearPolicy):
    """One ridge regression per arm on random Fourier features.

    The first contexts are kept with their rewards. When there are enough, they determine the length scale,
    and the regressions are fitted to them again.
    """

    arms_are_independent = False

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        ridge: float,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self._map = RandomFeatures(self.features, self.seed)
        self._first_contexts: Float32 = np.zeros((FIRST_CONTEXTS, self.features), np.float32)
        self._first_rewards: Float64 = np.zeros(FIRST_CONTEXTS)
        self._first_weights: Float64 = np.zeros((len(self.arms), FIRST_CONTEXTS))

    @property
    def _width(self) -> int:
        return COSINES + self.features + 1

    def _input(self, x: Float32) -> Float64:
        return self._map(x)

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        super()._learn(x, arm, reward)
        step = self.updates
        if step < FIRST_CONTEXTS:
            self._first_contexts[step] = x
            self._first_rewards[step] = self._scaled(reward)
            self._first_weights[arm, step] = 1
        if step == FIRST_CONTEXTS - 1:
            self._map.fit(self._first_contexts)
            self._fit_again(np.array([self._map(row) for row in self._first_contexts]))

    def _fit_again(self, inputs: Float64) -> None:
        """Fit the regression of each arm to its share of the first contexts."""
        for arm, weights in enumerate(self._first_weights):
            weighted = weights[:, None] * inputs
            self._inverses[arm] = np.linalg.inv(weighted.T @ inputs + self.ridge * np.eye(self._width))
            self._moments[arm] = self._first_rewards @ weighted
            self._weights[arm] = self._inverses[arm] @ self._moments[arm]

    def _contributions(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        bases, _ = self._means_and_widths(self._input(baseline))
        gradients = self._weights @ self._map.slopes(x, baseline)
        return bases, (self._high - self._low) * gradients * (x.astype(np.float64) - baseline)

    def _forget(self, arms: slice | None = None) -> None:
        super()._forget(arms)
        self._first_weights[arms or slice(None)] /= 2

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        weights = take_rows(self._first_weights, sources, 0)
        return {**super()._reordered(sources), "_first_weights": weights}

    def _snapshot(self) -> Arrays:
        return {
            **super()._snapshot(),
            "length_scale": self._map.length_scale,
            "first_contexts": self._first_contexts,
            "first_rewards": self._first_rewards,
            "first_weights": self._first_weights,
        }


@register("rff-ucb", source="Rahimi, Recht 2007; Valko et al. 2013")
class RFFUCB(RandomFeaturePolicy):
    """Ridge regression on random Fourier features plus ``beta`` · √(ridge · z'A⁻¹z).

    It approximates KernelUCB in constant memory. At an input unlike all earlier inputs, the bonus is about
    ``beta`` times the norm of z, for any ridge.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of the random features and of the random numbers that break ties.
    beta
        The size of the exploration bonus, at least 0.
    ridge
        The strength of the regularization, at least 1e-6.
    half_life
        Number of decisions after which all evidence counts half as much; None means never.

    Examples
    --------
    Two of four corners pay for each arm, which no linear value can express:

    >>> policy = RFFUCB(arms=["same", "different"], features=2)
    >>> corners = [(0, 0), (0, 1), (1, 0), (1, 1)]
    >>> for corner in corners * 25:
    ...     for arm in policy.arms:
    ...         policy.learn(corner, arm, float((corner[0] == corner[1]) == (arm == "same")))
    >>> [policy.decide(corner).arm for corner in corners]
    ['same', 'different', 'different', 'same']

    References
    ----------
    Rahimi, Recht: Random features for large-scale kernel machines. NIPS, 2007.

    Valko, Korda, Munos, Flaounas, Cristianini: Finite-time analysis of kernelised contextual bandits. UAI,
    2013.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        beta: float = 0.5,
        ridge: float = 0.1,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self.beta = _validation.number("beta", beta, 0)

    def _estimate(self, x: Float32) -> Estimates:
        z = self._input(x)
        means, widths = self._means_and_widths(z)
        bonuses = self.beta * (self._high - self._low) * np.sqrt(self.ridge * widths)
        return Estimates(means, bonuses, pseudocounts(z, widths, self.ridge))


_SMALLEST_DEVIATION = 0.14
_PRIOR_VARIANCE = 0.25
"""The variance of a fair coin, with the weight of one reward."""


@register("rff-ucb-sd", source="Rahimi, Recht 2007; Valko et al. 2013")
class RFFUCBSD(RandomFeaturePolicy):
    """Ridge regression on random Fourier features plus the noise deviation of the arm times √(z'A⁻¹z).

    The noise of each arm is estimated from the errors of its own predictions, so that an arm with predictable
    rewards is explored less. Rewards are scaled to [0, 1] and the deviation is at least 0.14.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of the random features and of the random numbers that break ties.
    ridge
        The strength of the regularization, at least 1e-6.
    half_life
        Number of decisions after which all evidence counts half as much; None means never.

    Examples
    --------
    >>> policy = RFFUCBSD(arms=["steady", "noisy"], features=1)
    >>> for step in range(100):
    ...     policy.learn([0.5], "steady", 1)
    ...     policy.learn([0.5], "noisy", step % 2)
    >>> bonuses = policy.estimate([0.5]).bonuses
    >>> bool(bonuses[0] < bonuses[1])
    True

    References
    ----------
    Rahimi, Recht: Random features for large-scale kernel machines. NIPS, 2007.

    Valko, Korda, Munos, Flaounas, Cristianini: Finite-time analysis of kernelised contextual bandits. UAI,
    2013.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        ridge: float = 0.3,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self._squares: Float64 = np.zeros(len(self.arms))
        self._effective_counts: Float64 = np.zeros(len(self.arms))

    def _deviations(self) -> Float64:
        """Return the noise deviation of each arm, on the scale of rewards from 0 to 1.

        For the errors e of all predictions, each made before its reward was learned, Σ e² / (1 + z'A⁻¹z)
        equals y'y − y'Z A⁻¹ Z'y. So no sum over predictions is stored.
        """
        errors = self._squares - np.einsum("ai,ai->a", self._weights, self._moments)
        variances = (_PRIOR_VARIANCE + np.maximum(errors, 0)) / (self._effective_counts + 1)
        deviations: Float64 = np.maximum(_SMALLEST_DEVIATION, np.sqrt(variances))
        return deviations

    def _estimate(self, x: Float32) -> Estimates:
        z = self._input(x)
        means, widths = self._means_and_widths(z)
        bonuses = (self._high - self._low) * self._deviations() * np.sqrt(widths)
        return Estimates(means, bonuses, pseudocounts(z, widths, self.ridge))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        super()._learn(x, arm, reward)
        self._squares[arm] += self._scaled(reward) ** 2
        self._effective_counts[arm] += 1

    def _forget(self, arms: slice | None = None) -> None:
        super()._forget(arms)
        self._squares[arms or slice(None)] /= 2
        self._effective_counts[arms or slice(None)] /= 2

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        return {
            **super()._reordered(sources),
            "_squares": take_rows(self._squares, sources, 0),
            "_effective_counts": take_rows(self._effective_counts, sources, 0),
        }

    def _snapshot(self) -> Arrays:
        return {**super()._snapshot(), "squares": self._squares, "effective_counts": self._effective_counts}
