"""Bounded rewards: a binary tree of networks per arm that halves the range until a small bin is left.

Nodes are numbered as in a heap: the root is 0, the children of node i are 2i + 1 (lower half of its
range) and 2i + 2 (upper half). The leaves follow the inner nodes, in the order of their bins.
"""

from typing import Literal

import numpy as np

from glcb._compile import kernel
from glcb._state import State, fill, rearranged
from glcb._types import Float32, Float64, Int64
from glcb.values.base import Expected

LeafValues = Literal["midpoint", "mean"]
"""What a bin stands for: its midpoint, or the mean of the rewards that fell into it. In the second case, a
reward between what two neighbours stand for counts for both in part."""


@kernel
def _moments(probabilities: Float32, outcomes: Float64, values: Float64, deviations: Float64) -> None:
    """Write mean and standard deviation of each arm, from the leaves up to the root.

    ``probabilities`` may have the arms several times, once for each of several contexts.
    """
    rows, inner = probabilities.shape
    mean = np.empty(2 * inner + 1)
    variance = np.empty(2 * inner + 1)
    for row in range(rows):
        mean[inner:] = outcomes[row % len(outcomes)]
        variance[inner:] = 0
        for node in range(inner - 1, -1, -1):
            p = probabilities[row, node]
            low, high = mean[2 * node + 1], mean[2 * node + 2]
            mean[node] = (1 - p) * low + p * high
            within = (1 - p) * variance[2 * node + 1] + p * variance[2 * node + 2]
            variance[node] = within + p * (1 - p) * (high - low) * (high - low)
        values[row] = mean[0]
        deviations[row] = np.sqrt(variance[0])


class Tree:
    """2^``depth`` equal bins of [``low``, ``high``], told apart by 2^``depth`` − 1 networks per arm."""

    def __init__(
        self, low: float, high: float, depth: int, arms: int, leaf_values: LeafValues = "midpoint"
    ) -> None:
        self.low = low
        self.high = high
        self.depth = depth
        self.bins = 1 << depth
        self._follow = leaf_values == "mean"
        centres = np.arange(self.bins, dtype=np.float64) + 0.5
        self._midpoints: Float64 = low + centres * ((high - low) / self.bins)
        self._counts = np.zeros((arms, self.bins), np.int64)
        self.outcomes: Float64 = np.tile(self._midpoints, (arms, 1))

    @property
    def networks_per_arm(self) -> int:
        """One network per inner node."""
        return self.bins - 1

    def expected(self, probabilities: Float32) -> Expected:
        """Return the expected reward of each arm and its deviation, its bins represented by their values."""
        expected = Expected(np.empty(len(probabilities)), np.empty(len(probabilities)))
        _moments(probabilities, self.outcomes, *expected)
        return expected

    def slopes(self, here: Float64, there: Float64) -> Float64:
        """Return how much an arm's value moves with the probability of each node, from there to here.

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
        position = int(self.bins * ((reward - self.low) / (self.high - self.low)))
        return min(max(position, 0), self.bins - 1)

    def targets(self, arm: int, reward: float) -> tuple[Int64, Float32]:
        """Return the nodes on the way to the reward's bin and which way to go at each (1: up).

        Where bins stand for means, the last turn is taken in part: a reward halfway between what the two bins
        stand for goes up by a half. So what lies within bins is not lost on the last network.
        """
        leaf = self.bin_of(reward)
        turns = [(leaf >> (self.depth - 1 - level)) & 1 for level in range(self.depth)]
        path = [0]
        for turn in turns[:-1]:
            path.append(2 * path[-1] + 1 + turn)
        targets = np.array(turns, np.float32)
        low, high = self.outcomes[arm, leaf & ~1], self.outcomes[arm, leaf | 1]
        if self._follow and low < high:
            targets[-1] = min(max((reward - low) / (high - low), 0), 1)
        return np.array(path, np.int64), targets

    def learn(self, arm: int, reward: float) -> None:
        """Let the value of the reward's bin follow the mean of what fell in; its midpoint counts as one."""
        if self._follow:
            leaf = self.bin_of(reward)
            self._counts[arm, leaf] += 1
            self.outcomes[arm, leaf] += (reward - self.outcomes[arm, leaf]) / (self._counts[arm, leaf] + 1)

    def forget(self) -> None:
        """Leave the value of every bin where it is, but let it move as if half the rewards had made it."""
        self._counts >>= 1

    def rearrange(self, sources: Int64) -> None:
        """Let arm j be what arm ``sources[j]`` was, or a new one for −1."""
        self._counts = rearranged(self._counts, sources, 0)
        self.outcomes = rearranged(self.outcomes, sources, self._midpoints)

    def state(self) -> State:
        """Return what the bins stand for, and how many rewards made it so."""
        return {"leaf_values": self.outcomes, "leaf_counts": self._counts}

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError or KeyError if it cannot be ours."""
        fill(self.state(), state)
        if self.outcomes.min() < self.low or self.outcomes.max() > self.high:
            raise ValueError("the value of a bin lies outside the range of rewards")
