"""Thompson sampling with boosted trees (Nilsson, Johansson, Åkerblom, Haghir Chehreghani 2024)."""

import math
from collections.abc import Sequence

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32
from glcb._types import Arm, Rewards, reward_range
from glcb.policies.base import Policy
from glcb.policies.buffer import Batch, Buffer
from glcb.policies.decision import Estimates
from glcb.policies.registry import register
from glcb.policies.round_robin import force_initial_rounds
from glcb.policies.trees.ensemble import Ensemble

PRIOR = 0.0025
"""Prior sum of squares of a leaf, for rewards scaled to [0, 1]."""


def fits(rewards: int) -> int:
    """Return ⌈8 ln t⌉ for t rewards. The ensemble is built anew when it grows.

    >>> [fits(rewards) for rewards in (0, 1, 2, 3, 1000, 1050, 1100)]
    [0, 0, 6, 9, 56, 56, 57]
    """
    return math.ceil(8 * math.log(max(rewards, 1)))


@register("tree-ts", source="Nilsson, Johansson, Åkerblom, Haghir Chehreghani 2024")
class TreeTS(Policy):
    """Draws each arm's value from the leaf statistics of boosted trees and chooses the best arm.

    One ensemble predicts the rewards of all arms, with the arm as part of its input. In each tree, a context
    falls into one leaf, which has a mean, a variance and a number of targets. The value of an arm is the sum
    of the means; the sum of variance / number is the variance of the normal distribution of the draw.

    XGBoost builds the ensemble anew from all rewards when ⌈8 ln t⌉ grows, where t is the number of rewards.
    In between, each reward updates the statistics of its leaves.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    trees
        The number of trees, from 1 to 1,000.
    depth
        The largest depth of a tree, from 1 to 12.
    learning_rate
        The part of its targets that a tree explains, from 0.001 to 1.
    posterior_scale
        The scale of the standard deviation of the draws, at least 0. Larger values explore more.

    References
    ----------
    Nilsson, Johansson, Åkerblom, Haghir Chehreghani: Tree ensembles for contextual bandits. TMLR, 2024.
    """

    stores_data = True
    requires = ("xgboost",)
    extra = "trees"
    arms_are_independent = False
    is_randomized = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        trees: int = 100,
        depth: int = 6,
        learning_rate: float = 0.1,
        posterior_scale: float = 0.5,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self.trees = _validation.integer("trees", trees, 1, 1000)
        self.depth = _validation.integer("depth", depth, 1, 12)
        self.learning_rate = _validation.number("learning_rate", learning_rate, 0.001, 1)
        self.posterior_scale = _validation.number("posterior_scale", posterior_scale, 0)
        self._low, self._high = reward_range(self.rewards)
        self._data = Buffer(self.features, len(self.arms))
        self._ensemble = Ensemble(
            self.features,
            len(self.arms),
            trees=self.trees,
            depth=self.depth,
            learning_rate=self.learning_rate,
            prior=PRIOR,
        )

    def _estimate(self, x: Float32) -> Estimates:
        means, variances = self._ensemble.moments(x)
        scale = self._high - self._low
        draws = self._rng.standard_normal(len(self.arms)) * np.sqrt(variances)
        bonuses = force_initial_rounds(self.posterior_scale * scale * draws, self._decisions)
        return Estimates(self._low + scale * means, bonuses, self._reward_counts.astype(np.float64))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        self._data.add(x, arm, reward)
        count = len(self._data)
        if fits(count) > fits(count - 1):
            self._ensemble.fit(*self._scaled(self._data.all()))
        else:
            self._ensemble.add(*self._scaled(Batch(x[None], np.array([arm]), np.array([reward]))))

    def _scaled(self, batch: Batch) -> Batch:
        """Return the batch with rewards scaled to [0, 1]."""
        return batch._replace(rewards=(batch.rewards - self._low) / (self._high - self._low))

    def _snapshot(self) -> Arrays:
        return {**self._data.snapshot(), **self._ensemble.snapshot()}

    def _restore(self, arrays: Arrays) -> None:
        self._data.restore(arrays)
        self._ensemble.restore(arrays, *self._scaled(self._data.all()))
