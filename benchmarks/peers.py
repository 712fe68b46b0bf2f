"""Other contextual bandit libraries, each used as its documentation recommends for online learning."""

import time
from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from benchmarks.timing import Seconds
from glcb._arrays import Float64

ALPHA = 0.25
"""Width of the confidence bounds, the same for every LinUCB; it does not affect the times."""


class Peer(ABC):
    """A bandit of another library, with arms 0, 1, 2, … and rewards within [0, 1]."""

    name: ClassVar[str]
    package: ClassVar[str]
    """The package that must be installed."""

    @abstractmethod
    def __init__(self, arms: int, features: int) -> None: ...

    @abstractmethod
    def decide(self, x: Float64) -> int:
        """Choose an arm."""

    @abstractmethod
    def learn(self, x: Float64, arm: int, reward: float) -> None:
        """Learn from the reward of ``arm``, chosen by the preceding ``decide`` in the same context."""

    def step(self, x: Float64, reward: float) -> Seconds:
        """Decide and learn once."""
        start = time.perf_counter()
        arm = self.decide(x)
        decided = time.perf_counter()
        self.learn(x, arm, reward)
        return {"decide": decided - start, "learn": time.perf_counter() - decided}


class NumpyLinUCB(Peer):
    """LinUCB with one model per arm: one matrix product for all arms, rank-one updates in O(d²).

    It validates nothing and allocates no matrices. The inverses are float64, because a running inverse in
    float32 drifts.
    """

    name = "numpy-linucb"
    package = "numpy"

    def __init__(self, arms: int, features: int) -> None:
        width = features + 1
        self.inverses = np.tile(np.eye(width), (arms, 1, 1))
        self.weights = np.zeros((arms, width))
        self._rows = self.inverses.reshape(arms * width, width)
        self._z = np.ones(width)
        self._update = np.empty((width, width))

    def scores(self, x: Float64) -> Float64:
        """Return the value plus the bonus of each arm."""
        z = self._z
        z[:-1] = x
        gains = (self._rows @ z).reshape(self.weights.shape)
        bounds: Float64 = self.weights @ z + ALPHA * np.sqrt(gains @ z)
        return bounds

    def decide(self, x: Float64) -> int:
        """Choose the arm with the highest score."""
        return int(self.scores(x).argmax())

    def learn(self, x: Float64, arm: int, reward: float) -> None:
        """Add z zᵀ with the Sherman–Morrison formula."""
        z = self._z
        z[:-1] = x
        inverse, weights = self.inverses[arm], self.weights[arm]
        gain = inverse @ z
        step = gain / (1 + gain @ z)
        np.multiply(gain[:, None], step, out=self._update)
        inverse -= self._update
        weights += step * (reward - weights @ z)


class VowpalWabbit(Peer):
    """Vowpal Wabbit's SquareCB with examples in its text format, as in its tutorials."""

    name = "vw-squarecb"
    package = "vowpalwabbit"

    def __init__(self, arms: int, features: int) -> None:
        from vowpalwabbit import Workspace

        # Without -q, all arms share one set of weights and differ only by a constant.
        self._vw = Workspace("--cb_explore_adf --squarecb -q sa --quiet --random_seed 1")
        self._context = "shared |s" + " :%.6g" * features
        self._arms = [f"|a {arm}" for arm in range(arms)]
        self._rng = np.random.default_rng(0)
        self._probability = 1.0

    def decide(self, x: Float64) -> int:
        """Draw an arm from the predicted distribution."""
        return self._draw(self._vw.predict([self._shared(x), *self._arms]))

    def learn(self, x: Float64, arm: int, reward: float) -> None:
        """Learn from the cost and the probability of the chosen arm."""
        self._vw.learn([self._shared(x), *self._labeled(arm, reward)])

    def _draw(self, probabilities: list[float]) -> int:
        cumulative = np.cumsum(probabilities)
        arm = min(int(np.searchsorted(cumulative, self._rng.random() * cumulative[-1])), len(self._arms) - 1)
        self._probability = probabilities[arm]
        return arm

    def _shared(self, x: Float64) -> str:
        return self._context % tuple(x.tolist())

    def _labeled(self, arm: int, reward: float) -> list[str]:
        lines = self._arms.copy()
        lines[arm] = f"0:{-reward}:{self._probability} {lines[arm]}"
        return lines


class ParsedVowpalWabbit(VowpalWabbit):
    """Like VowpalWabbit, but with formatting and parsing of the text format excluded from the times."""

    name = "vw-squarecb-parsed"

    def step(self, x: Float64, reward: float) -> Seconds:
        """Decide and learn once, from examples that are already parsed."""
        shared = self._shared(x)
        question = self._vw.parse([shared, *self._arms])
        start = time.perf_counter()
        arm = self._draw(self._vw.predict(question))
        decided = time.perf_counter() - start
        self._vw.finish_example(question)
        answer = self._vw.parse([shared, *self._labeled(arm, reward)])
        start = time.perf_counter()
        self._vw.learn(answer)
        learned = time.perf_counter() - start
        self._vw.finish_example(answer)
        return {"decide": decided, "learn": learned}


class MABWiserLinUCB(Peer):
    """MABWiser's LinUCB, which inverts the matrix of an arm on every reward."""

    name = "mabwiser-linucb"
    package = "mabwiser"

    def __init__(self, arms: int, features: int) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        self._mab: Any = MAB(list(range(arms)), LearningPolicy.LinUCB(alpha=ALPHA))
        self._mab.fit(np.arange(arms), np.zeros(arms), np.zeros((arms, features)))

    def decide(self, x: Float64) -> int:
        """Choose the arm with the highest confidence bound."""
        return int(self._mab.predict(x[None]))

    def learn(self, x: Float64, arm: int, reward: float) -> None:
        """Update the model of ``arm``."""
        self._mab.partial_fit([arm], [reward], x[None])


class RiverLinUCB(Peer):
    """River's LinUCB, whose contexts are dictionaries."""

    name = "river-linucb"
    package = "river"

    def __init__(self, arms: int, features: int) -> None:
        from river.bandit import LinUCBDisjoint

        self._arms = list(range(arms))
        self._policy: Any = LinUCBDisjoint(seed=0)
        for arm in self._arms:
            self.learn(np.zeros(features), arm, 0.0)

    def decide(self, x: Float64) -> int:
        """Choose the arm with the highest confidence bound."""
        return int(self._policy.pull(self._arms, context=dict(enumerate(x.tolist()))))

    def learn(self, x: Float64, arm: int, reward: float) -> None:
        """Update the model of ``arm``."""
        self._policy.update(arm, dict(enumerate(x.tolist())), reward)


_ALL: tuple[type[Peer], ...] = (NumpyLinUCB, VowpalWabbit, ParsedVowpalWabbit, MABWiserLinUCB, RiverLinUCB)


def installed() -> list[type[Peer]]:
    """Return the peers whose packages are installed."""
    return [peer for peer in _ALL if find_spec(peer.package)]


def missing() -> list[str]:
    """Return the names of the peers whose packages are not installed."""
    return [peer.name for peer in _ALL if not find_spec(peer.package)]
