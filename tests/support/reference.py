"""A reference implementation of GLCB in NumPy and float64, written to be compared with the paper.

It shares no code with the kernels. Signatures are arguments, so that a context on the boundary of a
half-space cannot make the two implementations diverge.
"""

import math

import numpy as np
from numpy.typing import NDArray

from glcb import Settings

Array = NDArray[np.float64]
Signature = NDArray[np.int64]
Moves = list[tuple[Array, float]]


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def base_inputs(x: Array, settings: Settings) -> Array:
    clip = settings.input_clip
    return np.array([settings.bias, *(logit(min(max(v, clip), 1 - clip)) for v in x)])


class Network:
    """One gated linear network with switching over all its units."""

    def __init__(self, features: int, settings: Settings) -> None:
        self.settings = settings
        self.units = [(layer, j) for layer, size in enumerate(settings.layers) for j in range(size)]
        self.fan_in = [1 + size for size in (features, *settings.layers[:-1])]
        self.weights: dict[tuple[int, int], Array] = {}  # (unit, signature)
        self.squares: dict[tuple[int, int], Array] = {}
        self.mixture = np.full(len(self.units), 1 / len(self.units))
        self.ones = self.targets = 0  # counts of targets, halved by forgetting

    def active(self, unit: int, signature: Signature) -> Array:
        layer, _ = self.units[unit]
        fan_in = self.fan_in[layer]
        from_zero = self.settings.initialization == "frequency" and layer == 0
        first = np.full(fan_in, 0.0 if from_zero else 1 / fan_in)
        return self.weights.setdefault((unit, int(signature[unit])), first)

    def offset(self) -> float:
        if self.settings.initialization == "inputs":
            return 0.0
        frequency = (1 + self.ones) / (2 + self.targets)
        return logit(min(max(frequency, self.settings.clip), 1 - self.settings.clip)) / 2

    def forward(self, x: Array, signature: Signature) -> tuple[list[Array], Array]:
        """Return the input of every layer and the clipped probability of every unit."""
        s = self.settings
        inputs = [base_inputs(x, s)]
        probabilities = []
        unit = 0
        for layer, size in enumerate(s.layers):
            logits = []
            for _ in range(size):
                u = float(self.active(unit, signature) @ inputs[-1]) + (self.offset() if layer == 0 else 0.0)
                u = min(max(u, logit(s.clip)), logit(1 - s.clip))
                logits.append(u)
                probabilities.append(sigmoid(u))
                unit += 1
            inputs.append(np.array([s.bias, *logits]))
        return inputs, np.array(probabilities)

    def predict(self, x: Array, signature: Signature) -> float:
        _, p = self.forward(x, signature)
        return float(p[-1] if self.settings.output == "last" else self.mixture @ p)

    def learn(self, x: Array, signature: Signature, r: float, moves: Moves, alpha: float) -> None:
        inputs, p = self.forward(x, signature)
        for unit, (layer, _) in enumerate(self.units):
            w = self.active(unit, signature)
            direction, rate = moves[unit]
            if layer > 0 and self.settings.optimizer == "newton":
                gradient = (p[unit] - r) * inputs[layer]
                squares = self.squares.setdefault((unit, int(signature[unit])), np.zeros(w.size))
                squares += gradient**2
                w -= 0.03 * gradient / np.sqrt(0.01 + squares)
            else:
                w -= rate * (p[unit] - r) * (direction if layer == 0 else inputs[layer])
            np.clip(w, -self.settings.weight_bound, self.settings.weight_bound, out=w)
        v = self.mixture * p**r * (1 - p) ** (1 - r)
        self.mixture = (1 - alpha) * v / v.sum() + alpha / v.size
        self.ones += r > 0.5
        self.targets += 1

    def forget(self) -> None:
        for squares in self.squares.values():
            squares /= 2
        self.ones //= 2
        self.targets //= 2


class ReferenceGLCB:
    """GLCB for binary rewards (``bounds`` is None) or, with a tree of networks per arm, for bounded
    rewards."""

    def __init__(
        self, arms: int, features: int, settings: Settings, bounds: tuple[float, float] | None
    ) -> None:
        self.arms = arms
        self.settings = settings
        self.bounds = bounds
        nodes = [""] if bounds is None else self.paths(settings.tree_depth)
        self.networks = [{node: Network(features, settings) for node in nodes} for _ in range(arms)]
        self.counts: dict[tuple[int, int, int], int] = {}  # (unit, signature, arm)
        self.decisions = 0  # decisions; the next line counts rewards per arm
        self.reward_counts = [0] * arms
        self.moment: Array = np.zeros((features + 1, features + 1))  # second moment of all inputs
        self.inputs = 0  # number of inputs
        self.leaves = [self.midpoints() for _ in range(arms)]
        self.leaf_counts = [[0] * 2**settings.tree_depth for _ in range(arms)]  # rewards per leaf
        # Forgetting halves all of these counts. It is triggered by the number of all decisions, never halved.
        self.all_decisions = 0

    @staticmethod
    def paths(depth: int) -> list[str]:
        """Return the inner nodes of the tree, level by level, as the branches that lead to them."""
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
            branches = format(leaf, "b").zfill(depth)
            for level, branch in enumerate(branches):
                up = self.networks[arm][branches[:level]].predict(x, signature)
                result[leaf] *= up if branch == "1" else 1 - up
        return result

    def outcomes(self, arm: int) -> Array:
        return np.array([0.0, 1.0]) if self.bounds is None else np.array(self.leaves[arm])

    def midpoints(self) -> list[float]:
        low, high = self.bounds or (0.0, 1.0)
        bins = 2**self.settings.tree_depth
        return [low + (k + 0.5) * (high - low) / bins for k in range(bins)]

    def values(self, x: Array, signature: Signature) -> Array:
        return np.array([self.distribution(x, signature, a) @ self.outcomes(a) for a in range(self.arms)])

    def deviation(self, x: Array, signature: Signature, arm: int) -> float:
        p, outcomes = self.distribution(x, signature, arm), self.outcomes(arm)
        return math.sqrt(p @ (outcomes - p @ outcomes) ** 2)

    def pseudocount(self, signature: Signature, arm: int) -> float:
        t = self.decisions + 1
        n = np.array([self.counts.get((u, int(s), arm), 0) for u, s in enumerate(signature)])
        if n.max() == 0:
            return 0.0
        weights = np.exp(-math.log(t - 1) * n / n.max())
        return float((weights * n).sum() / weights.sum())

    def bonus(self, x: Array, signature: Signature, arm: int) -> float:
        t = self.decisions + 1
        count = self.pseudocount(signature, arm)
        if count == 0:
            return math.inf
        unit = 1.0 if self.settings.bonus_unit == "reward" else self.deviation(x, signature, arm)
        return self.settings.bonus_scale * unit * math.sqrt(math.log(t) / count)

    def moves(self, x: Array, arm: int) -> Moves:
        """Return direction and rate of every unit. Directions apply to the first layer only."""
        s = self.settings
        z = base_inputs(x, s)
        eta = s.learning_rate / (1 + s.learning_rate_decay * self.reward_counts[arm])
        units = range(sum(s.layers))
        if s.optimizer == "gradient":
            return [(z, eta * s.rate_factors[u % len(s.rate_factors)]) for u in units]
        moves: Moves = []
        for u in units:
            group = u // len(s.hyperplane_cycle)
            factor = s.rate_factors[group % len(s.rate_factors)]
            ridge = s.ridges[group // len(s.rate_factors) % len(s.ridges)]
            moment = ridge * z.size * np.eye(z.size) + self.moment
            q: Array = self.inputs * np.linalg.solve(moment, z).astype(np.float64)
            moves.append((q, eta * factor / (1 + s.damping * eta * factor * float(z @ q))))
        return moves

    def learn(self, x: Array, signature: Signature, arm: int, reward: float) -> None:
        s, n = self.settings, self.reward_counts[arm]
        alpha = min(1.0, s.switching_rate / (1 + s.switching_rate_decay * n))
        self.moment += np.outer(base_inputs(x, s), base_inputs(x, s))
        self.inputs += 1
        moves = self.moves(x, arm)
        if self.bounds is None:
            self.networks[arm][""].learn(x, signature, int(reward), moves, alpha)
        else:
            low, high = self.bounds
            bins = 2**s.tree_depth
            leaf = min(max(math.floor(bins * (reward - low) / (high - low)), 0), bins - 1)
            branches = format(leaf, "b").zfill(s.tree_depth)
            targets = [float(branch) for branch in branches]
            if s.leaf_values == "mean":
                below, above = self.leaves[arm][leaf - leaf % 2], self.leaves[arm][leaf - leaf % 2 + 1]
                targets[-1] = min(max((reward - below) / (above - below), 0.0), 1.0)
            for level, target in enumerate(targets):
                self.networks[arm][branches[:level]].learn(x, signature, target, moves, alpha)
            if s.leaf_values == "mean":
                self.leaf_counts[arm][leaf] += 1
                self.leaves[arm][leaf] += (reward - self.leaves[arm][leaf]) / (
                    1 + self.leaf_counts[arm][leaf]
                )
        for unit, own in enumerate(signature):
            key = (unit, int(own), arm)
            self.counts[key] = self.counts.get(key, 0) + 1
        self.reward_counts[arm] += 1
        self.decisions += 1
        self.all_decisions += 1
        if s.half_life is not None and self.all_decisions % s.half_life == 0:
            self.forget()

    def forget(self) -> None:
        for networks in self.networks:
            for network in networks.values():
                network.forget()
        self.counts = {key: count // 2 for key, count in self.counts.items()}
        self.decisions //= 2
        self.reward_counts = [count // 2 for count in self.reward_counts]
        self.moment /= 2
        self.inputs //= 2
        self.leaf_counts = [[count // 2 for count in counts] for counts in self.leaf_counts]
