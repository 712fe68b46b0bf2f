"""Bounded rewards: a binary tree of networks per arm that halves the range until a small bin is left.

Nodes are numbered as in a heap: the root is 0, the children of node i are 2i + 1 (lower half of its
range) and 2i + 2 (upper half). The leaves follow the inner nodes, in the order of their bins.
"""

import numpy as np

from glcb._compile import kernel
from glcb._types import Float32, Float64, Int64


@kernel
def _expectations(probabilities: Float32, outcomes: Float64, values: Float64) -> None:
    arms, inner = probabilities.shape
    node_value = np.empty(inner + outcomes.size)
    node_value[inner:] = outcomes
    for arm in range(arms):
        for node in range(inner - 1, -1, -1):
            p = probabilities[arm, node]
            node_value[node] = (1 - p) * node_value[2 * node + 1] + p * node_value[2 * node + 2]
        values[arm] = node_value[0]


class Tree:
    """2^``depth`` equal bins of [``low``, ``high``], told apart by 2^``depth`` − 1 networks per arm."""

    def __init__(self, low: float, high: float, depth: int) -> None:
        self.low = low
        self.high = high
        self.depth = depth
        self.bins = 1 << depth
        centres = np.arange(self.bins, dtype=np.float64) + 0.5
        self.outcomes: Float64 = low + centres * ((high - low) / self.bins)

    @property
    def networks_per_arm(self) -> int:
        """One network per inner node."""
        return self.bins - 1

    def values(self, probabilities: Float32) -> Float64:
        """Return the expected reward of each arm, its bins represented by their midpoints."""
        values = np.empty(probabilities.shape[0])
        _expectations(probabilities, self.outcomes, values)
        return values

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

    def targets(self, reward: float) -> tuple[Int64, Float32]:
        """Return the nodes on the way to the reward's bin and which way to go at each (1: up)."""
        leaf = self.bin_of(reward)
        turns = [(leaf >> (self.depth - 1 - level)) & 1 for level in range(self.depth)]
        path = [0]
        for turn in turns[:-1]:
            path.append(2 * path[-1] + 1 + turn)
        return np.array(path, np.int64), np.array(turns, np.float32)
