"""The algorithm in plain NumPy and float64, written to be read beside the paper, not to be fast.

It shares nothing with the kernels. Signatures are handed in, so that a context on the very edge of a
half-space does not make the two part ways.
"""

import math

import numpy as np
from numpy.typing import NDArray

from glcb import Settings

Array = NDArray[np.float64]
Signature = NDArray[np.int64]


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def logit(p: float) -> float:
    return math.log(p / (1 - p))


class Network:
    """One gated linear network with switching over all its units."""

    def __init__(self, features: int, settings: Settings) -> None:
        self.settings = settings
        self.units = [(layer, j) for layer, size in enumerate(settings.layers) for j in range(size)]
        self.fan_in = [1 + size for size in (features, *settings.layers[:-1])]
        self.weights: dict[tuple[int, int], Array] = {}  # (unit, signature)
        self.mixture = np.full(len(self.units), 1 / len(self.units))

    def active(self, unit: int, signature: Signature) -> Array:
        layer, _ = self.units[unit]
        fan_in = self.fan_in[layer]
        return self.weights.setdefault((unit, int(signature[unit])), np.full(fan_in, 1 / fan_in))

    def forward(self, x: Array, signature: Signature) -> tuple[list[Array], Array]:
        """Return the input of every layer and the clipped probability of every unit."""
        s = self.settings
        inputs = [np.array([s.bias, *(logit(min(max(v, s.clip), 1 - s.clip)) for v in x)])]
        probabilities = []
        unit = 0
        for size in s.layers:
            logits = []
            for _ in range(size):
                u = float(self.active(unit, signature) @ inputs[-1])
                u = min(max(u, logit(s.clip)), logit(1 - s.clip))
                logits.append(u)
                probabilities.append(sigmoid(u))
                unit += 1
            inputs.append(np.array([s.bias, *logits]))
        return inputs, np.array(probabilities)

    def predict(self, x: Array, signature: Signature) -> float:
        _, p = self.forward(x, signature)
        return float(p[-1] if self.settings.output == "last" else self.mixture @ p)

    def learn(self, x: Array, signature: Signature, r: int, eta: float, alpha: float) -> None:
        inputs, p = self.forward(x, signature)
        for unit, (layer, _) in enumerate(self.units):
            w = self.active(unit, signature)
            w -= eta * (p[unit] - r) * inputs[layer]
            np.clip(w, -self.settings.weight_box, self.settings.weight_box, out=w)
        v = self.mixture * (p if r == 1 else 1 - p)
        self.mixture = (1 - alpha) * v / v.sum() + alpha / v.size


class ReferenceGLCB:
    """GLCB for 0/1 rewards (``bounds`` is None) or, with a tree of networks per arm, for bounded ones."""

    def __init__(
        self, arms: int, features: int, settings: Settings, bounds: tuple[float, float] | None
    ) -> None:
        self.arms = arms
        self.settings = settings
        self.bounds = bounds
        nodes = [""] if bounds is None else self.paths(settings.tree_depth)
        self.networks = [{node: Network(features, settings) for node in nodes} for _ in range(arms)]
        self.counts: dict[tuple[int, int, int], int] = {}  # (unit, signature, arm)
        self.plays = [0] * arms

    @staticmethod
    def paths(depth: int) -> list[str]:
        """Return the inner nodes of the tree, as the turns that lead there, level by level."""
        return [
            format(i, "b").zfill(level) if level else "" for level in range(depth) for i in range(2**level)
        ]

    def distribution(self, x: Array, signature: Signature, arm: int) -> Array:
        if self.bounds is None:
            p = self.networks[arm][""].predict(x, signature)
            return np.array([1 - p, p])
        depth = self.settings.tree_depth
        result = np.ones(2**depth)
        for leaf in range(2**depth):
            turns = format(leaf, "b").zfill(depth)
            for level, turn in enumerate(turns):
                up = self.networks[arm][turns[:level]].predict(x, signature)
                result[leaf] *= up if turn == "1" else 1 - up
        return result

    def outcomes(self) -> Array:
        if self.bounds is None:
            return np.array([0.0, 1.0])
        low, high = self.bounds
        bins = 2**self.settings.tree_depth
        return np.array([low + (k + 0.5) * (high - low) / bins for k in range(bins)])

    def values(self, x: Array, signature: Signature) -> Array:
        return np.array([self.distribution(x, signature, arm) @ self.outcomes() for arm in range(self.arms)])

    def pseudocount(self, signature: Signature, arm: int) -> float:
        t = sum(self.plays) + 1
        n = np.array([self.counts.get((u, int(s), arm), 0) for u, s in enumerate(signature)])
        if n.max() == 0:
            return 0.0
        weights = np.exp(-math.log(t - 1) * n / n.max())
        return float((weights * n).sum() / weights.sum())

    def bonus(self, signature: Signature, arm: int) -> float:
        t = sum(self.plays) + 1
        count = self.pseudocount(signature, arm)
        return math.inf if count == 0 else self.settings.bonus_scale * math.sqrt(math.log(t) / count)

    def learn(self, x: Array, signature: Signature, arm: int, reward: float) -> None:
        s, n = self.settings, self.plays[arm]
        eta = s.learning_rate / (1 + s.learning_rate_decay * n)
        alpha = min(1.0, s.switching_rate / (1 + s.switching_rate_decay * n))
        if self.bounds is None:
            self.networks[arm][""].learn(x, signature, int(reward), eta, alpha)
        else:
            low, high = self.bounds
            bins = 2**s.tree_depth
            leaf = min(max(math.floor(bins * (reward - low) / (high - low)), 0), bins - 1)
            turns = format(leaf, "b").zfill(s.tree_depth)
            for level, turn in enumerate(turns):
                self.networks[arm][turns[:level]].learn(x, signature, int(turn), eta, alpha)
        for unit, own in enumerate(signature):
            key = (unit, int(own), arm)
            self.counts[key] = self.counts.get(key, 0) + 1
        self.plays[arm] += 1
