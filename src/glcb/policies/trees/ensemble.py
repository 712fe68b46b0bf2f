"""One gradient-boosted ensemble for all arms: flat trees, the statistics of their leaves, and their walk.

XGBoost builds the trees. They are copied into flat arrays, so that decisions and updates need only compiled
kernels. The features of a tree are the context, followed by one indicator per arm.
"""

import json
from typing import Any, NamedTuple

import numpy as np

from glcb._arrays import Arrays, Float32, Float64, Int64, check_values
from glcb._numba.compile import kernel

MIN_LEAF = 2
"""The fewest rewards in a leaf: a single reward has no variance."""
MAX_BIN = 32
"""The number of thresholds per feature that XGBoost tries."""
STRUCTURE = ("roots", "left", "right", "features", "thresholds")
"""The arrays that rewards do not change; they determine the other arrays."""


class EnsembleArrays(NamedTuple):
    """The trees of an ensemble, one after the other, and the targets that reached each leaf.

    The target of a reward in a tree is the part that earlier trees leave unexplained.
    """

    roots: Int64
    """The index of the first node of each tree."""
    left: Int64
    """The next node if the feature is below the threshold; 0 in a leaf."""
    right: Int64
    """The next node otherwise; 0 in a leaf."""
    features: Int64
    """The feature to compare; from the length of a context on, the indicators of the arms."""
    thresholds: Float32
    """The threshold of the feature; in a leaf, the output that XGBoost gives to it."""
    counts: Int64
    """Number of targets in a leaf."""
    means: Float64
    """Mean of the targets in a leaf."""
    squares: Float64
    """Sum of the squared deviations of the targets in a leaf from their mean."""


@kernel
def _find_leaf(x: Float32, arm: int, root: int, trees: EnsembleArrays) -> int:
    node = root
    while trees.left[node] != 0:
        feature = trees.features[node]
        value = x[feature] if feature < x.size else np.float32(feature == x.size + arm)
        node = trees.left[node] if value < trees.thresholds[node] else trees.right[node]
    return node


@kernel
def _add_targets(contexts: Float32, arms: Int64, targets: Float64, trees: EnsembleArrays) -> None:
    """Add each row to the statistics of its leaf in every tree."""
    for row in range(targets.size):
        target = targets[row]
        for root in trees.roots:
            leaf = _find_leaf(contexts[row], arms[row], root, trees)
            deviation = target - trees.means[leaf]
            trees.counts[leaf] += 1
            trees.means[leaf] += deviation / trees.counts[leaf]
            trees.squares[leaf] += deviation * (target - trees.means[leaf])
            target -= trees.thresholds[leaf]


@kernel
def _write_moments(
    x: Float32, prior: float, trees: EnsembleArrays, means: Float64, variances: Float64
) -> None:
    """Write the sum over the trees of the leaf's mean, and of the variance of this mean, for each arm."""
    for arm in range(means.size):
        mean = variance = 0.0
        for root in trees.roots:
            leaf = _find_leaf(x, arm, root, trees)
            count = trees.counts[leaf]
            mean += trees.means[leaf]
            variance += (trees.squares[leaf] + prior) / ((count - 1) * count)
        means[arm] = mean
        variances[arm] = variance


class Ensemble:
    """A gradient-boosted ensemble that predicts the target of every arm, and how uncertain the prediction is.

    Parameters
    ----------
    features
        The length of a context.
    arms
        The number of arms.
    trees
        The number of trees.
    depth
        The largest depth of a tree.
    learning_rate
        The part of its targets that a tree explains.
    prior
        Added to the sum of squares of each leaf, so that equal targets do not make a leaf certain.
    """

    def __init__(
        self, features: int, arms: int, *, trees: int, depth: int, learning_rate: float, prior: float
    ) -> None:
        self._features, self._arms = features, arms
        self._learning_rate, self._prior, self._trees = learning_rate, prior, trees
        self._parameters = {
            "objective": "reg:squarederror",
            "base_score": 0.0,
            "tree_method": "hist",
            "max_bin": MAX_BIN,
            "max_depth": depth,
            "min_child_weight": MIN_LEAF,
            "learning_rate": learning_rate,
            "nthread": 1,
        }
        none: Int64 = np.empty(0, np.int64)
        self.arrays = _without_statistics(none, none, none, none, np.empty(0, np.float32))

    def fit(self, contexts: Float32, arms: Int64, targets: Float64) -> None:
        """Build new trees, and compute the statistics of their leaves, from all data."""
        import xgboost

        indicators = np.arange(self._arms) == arms[:, None]
        inputs = np.concatenate([contexts, indicators.astype(np.float32)], axis=1)
        data = xgboost.DMatrix(inputs, label=targets, nthread=1)
        booster = xgboost.train(self._parameters, data, num_boost_round=self._trees)
        model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
        self.arrays = _flat(model["trees"])
        self.add(contexts, arms, targets)

    def add(self, contexts: Float32, arms: Int64, targets: Float64) -> None:
        """Add data to the statistics of the leaves. The trees do not change."""
        _add_targets(contexts, arms, targets, self.arrays)

    def moments(self, x: Float32) -> tuple[Float64, Float64]:
        """Return the mean of each arm's target in context ``x``, and the variance of this estimate."""
        means, variances = np.empty((2, self._arms))
        _write_moments(x, self._prior, self.arrays, means, variances)
        return means * self._learning_rate, variances * self._learning_rate**2

    def snapshot(self) -> Arrays:
        """Return the trees as arrays. Their statistics follow from the data."""
        return {name: getattr(self.arrays, name) for name in STRUCTURE}

    def restore(self, arrays: Arrays, contexts: Float32, arms: Int64, targets: Float64) -> None:
        """Restore a snapshot and the data; raise ValueError or KeyError if it is invalid."""
        own = self.snapshot()
        for name, array in own.items():
            if arrays[name].ndim != 1 or arrays[name].dtype != array.dtype:
                raise ValueError(f"{name} must be {array.dtype} with one axis, got {arrays[name].dtype}")
        trees = _without_statistics(**{name: check_values(name, arrays[name]).copy() for name in own})
        _check_structure(trees, self._features + self._arms)
        _add_targets(contexts, arms, targets, trees)
        if (trees.counts[trees.left == 0] < MIN_LEAF).any():
            raise ValueError(f"the trees have a leaf with fewer than {MIN_LEAF} rewards")
        self.arrays = trees


def _without_statistics(
    roots: Int64, left: Int64, right: Int64, features: Int64, thresholds: Float32
) -> EnsembleArrays:
    counts, means, squares = np.zeros(left.size, np.int64), np.zeros(left.size), np.zeros(left.size)
    return EnsembleArrays(roots, left, right, features, thresholds, counts, means, squares)


def _flat(trees: list[dict[str, Any]]) -> EnsembleArrays:
    """Concatenate the trees of an XGBoost model, in which the children of a leaf are −1."""
    roots = np.cumsum([0, *(len(tree["left_children"]) for tree in trees[:-1])])

    def children(side: str) -> Int64:
        nodes = [np.array(tree[side]) for tree in trees]
        return np.concatenate(
            [np.where(own < 0, 0, own + root) for own, root in zip(nodes, roots, strict=True)]
        )

    def joined(name: str) -> np.ndarray:
        return np.concatenate([tree[name] for tree in trees])

    return _without_statistics(
        roots,
        children("left_children"),
        children("right_children"),
        joined("split_indices").astype(np.int64),
        joined("split_conditions").astype(np.float32),
    )


def _check_structure(trees: EnsembleArrays, features: int) -> None:
    """Raise ValueError unless every walk ends in a leaf."""
    nodes = trees.left.size
    if not trees.right.size == trees.features.size == trees.thresholds.size == nodes:
        raise ValueError("left, right, features and thresholds must have one entry per node")
    inner = trees.left != 0
    later = np.arange(nodes)[inner]
    for children in (trees.left[inner], trees.right[inner]):
        if (children <= later).any() or (children >= nodes).any():
            raise ValueError("a child must come after its parent")
    if (trees.roots >= nodes).any() or (trees.features >= features).any():
        raise ValueError("a root or a feature does not exist")
