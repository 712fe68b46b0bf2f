"""Bounded rewards: a binary tree of networks per arm that halves the range until a small bin is left."""

from typing import Literal, NamedTuple

import numpy as np

from glcb._arrays import State, fill, rearranged
from glcb._types import Float32, Float64, Int64
from glcb.values.leaves import Lesson, TreeArrays, bin_of, lesson, moments, take_reward

LeafValues = Literal["midpoint", "mean"]
"""What a bin stands for: its midpoint, or the mean of the rewards that fell into it. In the second case, a
reward between what two neighbors stand for counts for both in part."""


class Expected(NamedTuple):
    """Mean and standard deviation of the reward that each arm is predicted to bring."""

    values: Float64
    deviations: Float64


class Tree:
    """2^``depth`` equal bins of [``low``, ``high``], told apart by 2^``depth`` − 1 networks per arm.

    A bandit hands ``leaves`` to the kernels; ``lesson`` and ``learn`` are for a tree that stands alone.
    """

    def __init__(
        self, low: float, high: float, depth: int, arms: int, leaf_values: LeafValues = "midpoint"
    ) -> None:
        self.depth = depth
        self.bins = 1 << depth
        centres = np.arange(self.bins, dtype=np.float64) + 0.5
        self._untried: Float64 = low + centres * ((high - low) / self.bins)
        self.leaves = TreeArrays(
            outcomes=np.tile(self._untried, (arms, 1)),
            counts=np.zeros((arms, self.bins), np.int64),
            low=low,
            high=high,
            follow=leaf_values == "mean",
        )

    @property
    def outcomes(self) -> Float64:
        """The rewards between which the predicted distribution is spread, one row per arm."""
        return self.leaves.outcomes

    @property
    def networks_per_arm(self) -> int:
        """One network per inner node."""
        return self.bins - 1

    def expected(self, probabilities: Float32) -> Expected:
        """Return what to expect of each arm; ``probabilities`` has a row per arm."""
        expected = Expected(np.empty(len(probabilities)), np.empty(len(probabilities)))
        moments(probabilities, self.outcomes, *expected)
        return expected

    def slopes(self, here: Float64, there: Float64) -> Float64:
        """Return how much an arm's value moves with each of its probabilities on the way from there to here.

        Slopes times differences of probabilities add up to the difference of values. One row per arm.

        The value below a node is low + p·gap, and Δ(p·gap) = mean p · Δgap + mean gap · Δp. Splitting every
        product like this, at the means of both ends, is exact and prefers neither factor: a split in
        sequence would give what both brought about together to whichever comes last.
        """
        ends = np.stack([here, there])
        inner = self.networks_per_arm
        values = np.empty((*ends.shape[:2], 2 * inner + 1))
        values[..., inner:] = self.outcomes
        for node in range(inner - 1, -1, -1):
            low, high = values[..., 2 * node + 1], values[..., 2 * node + 2]
            values[..., node] = low + ends[..., node] * (high - low)
        up = ends.mean(axis=0)
        reach = np.ones(values.shape[1:])
        for node in range(inner):
            reach[:, 2 * node + 1] = reach[:, node] * (1 - up[:, node])
            reach[:, 2 * node + 2] = reach[:, node] * up[:, node]
        gaps = (values[..., 2::2] - values[..., 1::2]).mean(axis=0)
        slopes: Float64 = reach[:, :inner] * gaps
        return slopes

    def distributions(self, probabilities: Float32) -> Float64:
        """Return the probability of each bin, one row per arm: the product along its path."""
        reach = np.ones((probabilities.shape[0], 1))
        for level in range(self.depth):
            first = (1 << level) - 1
            up = probabilities[:, first : 2 * first + 1].astype(np.float64)
            reach = np.stack([reach * (1 - up), reach * up], axis=2).reshape(len(reach), -1)
        return reach

    def bin_of(self, reward: float) -> int:
        """Return the bin that holds ``reward``; the upper end belongs to the last one."""
        return bin_of(reward, self.leaves)

    def lesson(self, arm: int, reward: float) -> Lesson:
        """Return which networks learn from ``reward``, and the target of each."""
        return lesson(arm, reward, self.leaves)

    def learn(self, arm: int, reward: float) -> None:
        """Take in that ``arm`` brought ``reward``."""
        take_reward(arm, reward, self.leaves)

    def forget(self) -> None:
        """Leave the value of every bin where it is, but let it move as if half the rewards had made it."""
        np.right_shift(self.leaves.counts, 1, out=self.leaves.counts)

    def rearrange(self, sources: Int64) -> None:
        """Let arm j be what arm ``sources[j]`` was, or a new one for −1."""
        self.leaves = self.leaves._replace(
            counts=rearranged(self.leaves.counts, sources, 0),
            outcomes=rearranged(self.outcomes, sources, self._untried),
        )

    def state(self) -> State:
        """Return what the bins stand for, and how many rewards made it so."""
        return {"leaf_values": self.outcomes, "leaf_counts": self.leaves.counts}

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError or KeyError if it cannot be ours."""
        fill(self.state(), state)
        if self.outcomes.min() < self.leaves.low or self.outcomes.max() > self.leaves.high:
            raise ValueError("the value of a bin lies outside the range of rewards")
