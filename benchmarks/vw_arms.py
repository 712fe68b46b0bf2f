"""Vowpal Wabbit's SquareCB with arm features (``cb_explore_adf``)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb._arrays import Float32
from glcb._types import Rewards, reward_range

OPTIONS = "--cb_explore_adf --squarecb -q ca --quiet -b 20"
"""The features of context and arm are crossed: without ``-q``, contexts have no effect."""


class VWArms:
    """Draws one of the available arms from the probabilities that Vowpal Wabbit predicts.

    It is not a policy: policies do not have features of arms.

    Parameters
    ----------
    arms
        The features of each arm, one row each.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of the random numbers that choose the arms.
    """

    def __init__(self, arms: Float32, *, rewards: Rewards = "binary", seed: int = 0) -> None:
        from vowpalwabbit import Workspace

        self._workspace: Any = Workspace(OPTIONS)
        self._lines = [arm_line(row) for row in arms]
        self._low, self._high = reward_range(rewards)
        self._rng = np.random.default_rng(seed)
        self._available: Sequence[int] = ()
        self._probability = 1.0

    def choose(self, x: Float32, available: Sequence[int]) -> int:
        """Draw an arm from the probabilities of Vowpal Wabbit."""
        lines = [context_line(x), *(self._lines[arm] for arm in available)]
        probabilities = np.array(self._workspace.predict(lines), float)
        chosen = int(self._rng.choice(len(available), p=probabilities / probabilities.sum()))
        self._available, self._probability = available, float(probabilities[chosen])
        return available[chosen]

    def learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn the reward of the arm that was chosen last."""
        cost = (self._high - reward) / (self._high - self._low)
        label = f"0:{cost}:{self._probability} "
        labels = (label if other == arm else "" for other in self._available)
        arms = (self._lines[other] for other in self._available)
        self._workspace.learn([context_line(x), *map("".join, zip(labels, arms, strict=True))])


def context_line(x: Float32) -> str:
    """Return a context in the text format of Vowpal Wabbit.

    >>> context_line(np.array([0.5, 0.25], np.float32))
    'shared |c 0:0.5 1:0.25'
    """
    return f"shared |c {_features(x)}"


def arm_line(features: Float32) -> str:
    """Return an arm in the text format of Vowpal Wabbit."""
    return f"|a {_features(features)}"


def _features(row: Float32) -> str:
    return " ".join(f"{i}:{value:.5g}" for i, value in enumerate(row.tolist()))
