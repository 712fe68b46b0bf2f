"""The compiled way from rewards to targets of networks, and from their probabilities to values.

An arm's networks are the inner nodes of a binary tree over its outcomes. Nodes are numbered as in a heap: the
root is 0, the children of node i are 2i + 1 (lower half of its range) and 2i + 2 (upper half). The leaves
follow the inner nodes, in the order of their bins. With two outcomes there is one network.
"""

from typing import NamedTuple

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Float32, Float64, Int64


class TreeArrays(NamedTuple):
    """All that the kernels need to know of a tree."""

    outcomes: Float64
    """What each bin stands for, one row per arm."""
    counts: Int64
    """How many rewards made it so."""
    low: float
    high: float
    follow: bool
    """Whether bins stand for the mean of the rewards that fell into them."""


class Lesson(NamedTuple):
    """What networks learn from one reward."""

    networks: Int64
    """The networks on the way to the reward's bin, numbered through all arms."""
    targets: Float32
    """Which way to go at each; 1 is up."""


@kernel
def moments(probabilities: Float32, outcomes: Float64, values: Float64, deviations: Float64) -> None:
    """Write mean and standard deviation of each arm, from the leaves up to the root."""
    arms, inner = probabilities.shape
    mean = np.empty(2 * inner + 1)
    variance = np.empty(2 * inner + 1)
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
def bin_of(reward: float, leaves: TreeArrays) -> int:
    """Return the bin that holds ``reward``; the upper end belongs to the last one."""
    bins: int = leaves.outcomes.shape[1]
    position = int(bins * ((reward - leaves.low) / (leaves.high - leaves.low)))
    return min(max(position, 0), bins - 1)


@kernel
def lesson(arm: int, reward: float, leaves: TreeArrays) -> Lesson:
    """Return the nodes on the way to the reward's bin and which way to go at each.

    Where bins stand for means, the last turn is taken in part: a reward halfway between what the two bins
    stand for goes up by a half. So what lies within bins is not lost on the last network.
    """
    bins = leaves.outcomes.shape[1]
    depth = 0
    while 1 << depth < bins:
        depth += 1
    leaf = bin_of(reward, leaves)
    networks = np.empty(depth, np.int64)
    targets = np.empty(depth, np.float32)
    node = 0
    for level in range(depth):
        turn = (leaf >> (depth - 1 - level)) & 1
        networks[level] = arm * (bins - 1) + node
        targets[level] = turn
        node = 2 * node + 1 + turn
    low, high = leaves.outcomes[arm, leaf & ~1], leaves.outcomes[arm, leaf | 1]
    if leaves.follow and low < high:
        targets[depth - 1] = min(max((reward - low) / (high - low), 0.0), 1.0)
    return Lesson(networks, targets)


@kernel
def take_reward(arm: int, reward: float, leaves: TreeArrays) -> None:
    """Let the value of the reward's bin follow the mean of what fell in; its midpoint counts as one."""
    if leaves.follow:
        leaf = bin_of(reward, leaves)
        leaves.counts[arm, leaf] += 1
        far = reward - leaves.outcomes[arm, leaf]
        leaves.outcomes[arm, leaf] += far / (leaves.counts[arm, leaf] + 1)
