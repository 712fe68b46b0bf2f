"""Types and limits shared by several packages."""

from typing import Literal

Arm = str | int
"""The name of an arm. If only the number of arms is specified, the names are 0, 1, 2, …"""

Rewards = Literal["binary"] | tuple[float, float]
"""The range of rewards: 0 or 1, or any number within (lowest, highest)."""

ExplorationMode = Literal["gap", "uniform"]
"""How exploration is divided among arms other than the best: by their gap to it, or evenly."""

MAX_EXPLORATION = 0.5
"""With more exploration, an arm could be more likely than a better arm."""

MAX_FEATURES = 100_000
"""Largest number of features of a context."""


def reward_range(rewards: Rewards) -> tuple[float, float]:
    """Return the lowest and the highest possible reward."""
    return (0.0, 1.0) if rewards == "binary" else rewards
