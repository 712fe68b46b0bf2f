"""A binary tree of networks per arm, which predicts the distribution of rewards.

The range of rewards is divided into 2^depth equal bins. The networks of an arm are the inner nodes of a
binary tree over these bins; each predicts whether the reward is in the upper half of its node's range. Nodes
are numbered as in a heap: the root is 0, the children of node i are 2i + 1 (lower half) and 2i + 2 (upper
half). The leaves follow the inner nodes, in the order of their bins. Binary rewards need a single network per
arm.
"""

from typing import Literal, NamedTuple

import numpy as np
from numba import boolean, float64, int64

from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into, take_rows
from glcb._numba.arrays import new_vector
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type

LeafValues = Literal["midpoint", "mean"]
"""The value of a bin: its midpoint, or the mean of the rewards that fell into it. With "mean", a reward
between the values of two neighboring bins counts partly for each."""


class TreeArrays(NamedTuple):
    """The kernels' view of a tree."""

    outcomes: Float64
    """The value of each bin, one row per arm."""
    counts: Int64
    """Number of rewards behind each value."""
    low: float
    high: float
    follow_means: bool
    """Whether the value of a bin is the mean of its rewards."""


TREE_ARRAYS = named_tuple_type(TreeArrays, float64[:, ::1], int64[:, ::1], float64, float64, boolean)


class Targets(NamedTuple):
    """The networks that learn from one reward, and their targets."""

    networks: Int64
    """The networks on the path to the reward's bin, numbered across all arms."""
    targets: Float32
    """The branch at each network; 1 is the upper half."""


class Expected(NamedTuple):
    """Mean and standard deviation of each arm's predicted reward."""

    values: Float64
    deviations: Float64


@kernel
def write_moments(probabilities: Float32, outcomes: Float64, values: Float64, deviations: Float64) -> None:
    """Write mean and standard deviation of each arm, computed from the leaves to the root."""
    arms, inner = probabilities.shape
    mean, variance = new_vector(np.float64, 2 * inner + 1), new_vector(np.float64, 2 * inner + 1)
    for arm in range(arms):
        for leaf in range(inner + 1):
            mean[inner + leaf] = outcomes[arm, leaf]
            variance[inner + leaf] = 0
        for node in range(inner - 1, -1, -1):
            p = probabilities[arm, node]
            low, high = mean[2 * node + 1], mean[2 * node + 2]
            mean[node] = (1 - p) * low + p * high
            within = (1 - p) * variance[2 * node + 1] + p * variance[2 * node + 2]
            variance[node] = within + p * (1 - p) * (high - low) * (high - low)
        values[arm] = mean[0]
        deviations[arm] = np.sqrt(variance[0])


@kernel
def bin_of(reward: float, tree: TreeArrays) -> int:
    """Return the bin of ``reward``. The upper end of the range belongs to the last bin."""
    bins: int = tree.outcomes.shape[1]
    position = int(bins * ((reward - tree.low) / (tree.high - tree.low)))
    return min(max(position, 0), bins - 1)


@kernel
def targets_for(arm: int, reward: float, tree: TreeArrays) -> Targets:
    """Return the networks on the path to the reward's bin and the branch at each network.

    If values of bins are means, the last target is fractional: it is ½ for a reward halfway between the
    values of the two bins. The last network thus learns where within the bins a reward lies.
    """
    bins = tree.outcomes.shape[1]
    depth = 0
    while 1 << depth < bins:
        depth += 1
    leaf = bin_of(reward, tree)
    networks, targets = new_vector(np.int64, depth), new_vector(np.float32, depth)
    node = 0
    for level in range(depth):
        branch = (leaf >> (depth - 1 - level)) & 1
        networks[level] = arm * (bins - 1) + node
        targets[level] = branch
        node = 2 * node + 1 + branch
    low, high = tree.outcomes[arm, leaf & ~1], tree.outcomes[arm, leaf | 1]
    if tree.follow_means and low < high:
        targets[depth - 1] = min(max((reward - low) / (high - low), 0.0), 1.0)
    return Targets(networks, targets)


@kernel
def update_leaf(arm: int, reward: float, tree: TreeArrays) -> None:
    """Move the value of the reward's bin to the mean of its rewards. The midpoint counts as one reward."""
    if tree.follow_means:
        leaf = bin_of(reward, tree)
        tree.counts[arm, leaf] += 1
        difference = reward - tree.outcomes[arm, leaf]
        tree.outcomes[arm, leaf] += difference / (tree.counts[arm, leaf] + 1)


class Tree:
    """2^``depth`` bins of equal width, distinguished by 2^``depth`` − 1 networks per arm.

    Parameters
    ----------
    low, high
        The range of rewards.
    depth
        Number of levels of networks.
    arms
        Number of arms.
    leaf_values
        The value of a bin: its midpoint, or the mean of its rewards.
    """

    def __init__(
        self, low: float, high: float, depth: int, arms: int, leaf_values: LeafValues = "midpoint"
    ) -> None:
        self.depth = depth
        self.bins = 1 << depth
        centers = np.arange(self.bins, dtype=np.float64) + 0.5
        self._initial_outcomes: Float64 = low + centers * ((high - low) / self.bins)
        self.arrays = TreeArrays(
            outcomes=np.tile(self._initial_outcomes, (arms, 1)),
            counts=np.zeros((arms, self.bins), np.int64),
            low=low,
            high=high,
            follow_means=leaf_values == "mean",
        )

    @property
    def outcomes(self) -> Float64:
        """The value of each bin, one row per arm."""
        return self.arrays.outcomes

    @property
    def networks_per_arm(self) -> int:
        """One network per inner node."""
        return self.bins - 1

    def expected(self, probabilities: Float32) -> Expected:
        """Return mean and standard deviation of each arm; ``probabilities`` has one row per arm."""
        expected = Expected(np.empty(len(probabilities)), np.empty(len(probabilities)))
        write_moments(probabilities, self.outcomes, *expected)
        return expected

    def slopes(self, probabilities: Float64, baseline: Float64) -> Float64:
        """Return how much an arm's value changes with each of its probabilities, one row per arm.

        Slopes times differences of probabilities from the baseline add up to the difference of values.

        The value at a node is low + p·gap, and Δ(p·gap) = mean p · Δgap + mean gap · Δp. Splitting every
        product at the means of both ends is exact and symmetric. A sequential split would attribute the
        interaction of both factors to the last factor.
        """
        ends = np.stack([probabilities, baseline])
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
        """Return the probability of each bin, one row per arm: the product of the branches on its path."""
        reach = np.ones((probabilities.shape[0], 1))
        for level in range(self.depth):
            first = (1 << level) - 1
            up = probabilities[:, first : 2 * first + 1].astype(np.float64)
            reach = np.stack([reach * (1 - up), reach * up], axis=2).reshape(len(reach), -1)
        return reach

    def bin_of(self, reward: float) -> int:
        """Return the bin of ``reward``. The upper end of the range belongs to the last bin."""
        return bin_of(reward, self.arrays)

    def targets_for(self, arm: int, reward: float) -> Targets:
        """Return the networks that learn from ``reward``, and their targets."""
        return targets_for(arm, reward, self.arrays)

    def learn(self, arm: int, reward: float) -> None:
        """Update the value of the reward's bin."""
        update_leaf(arm, reward, self.arrays)

    def forget(self, arms: slice | None = None) -> None:
        """Halve the counts of all or some arms. The values of bins stay, but move faster later."""
        counts = self.arrays.counts
        counts[arms or slice(None)] >>= 1

    def reorder(self, sources: Int64) -> None:
        """Replace arm j with the old arm ``sources[j]``, or with a new arm for −1."""
        self.arrays = self.arrays._replace(
            counts=take_rows(self.arrays.counts, sources, 0),
            outcomes=take_rows(self.outcomes, sources, self._initial_outcomes),
        )

    def snapshot(self) -> Arrays:
        """Return the values of the bins and the counts behind them."""
        return {"leaf_values": self.outcomes, "leaf_counts": self.arrays.counts}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        copy_into(self.snapshot(), arrays)
        if self.outcomes.min() < self.arrays.low or self.outcomes.max() > self.arrays.high:
            raise ValueError("the value of a bin is outside the range of rewards")


class Bernoulli(Tree):
    """The tree for rewards of 0 and 1: one network per arm, with the two rewards as fixed leaves."""

    def __init__(self, arms: int) -> None:
        super().__init__(0.0, 1.0, 1, arms)
        self._initial_outcomes = np.array([0.0, 1.0])
        self.arrays.outcomes[:] = self._initial_outcomes

    def snapshot(self) -> Arrays:
        """Return nothing: everything learned is in the networks."""
        return {}

    def restore(self, arrays: Arrays) -> None:
        """Do nothing: everything learned is in the networks."""
