"""Types that several rooms share, and what they say."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Arm = str | int
"""An arm is known by its name; arms given as a number are named 0, 1, 2, …"""

Rewards = Literal["binary"] | tuple[float, float]
"""The kind of reward: 0 or 1, or anything within (lowest, highest)."""

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]


def reward_range(rewards: Rewards) -> tuple[float, float]:
    """Return the lowest and the highest reward of a kind."""
    return (0.0, 1.0) if rewards == "binary" else rewards
