"""Types shared by several packages."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Arm = str | int
"""The name of an arm. If only the number of arms is specified, the names are 0, 1, 2, …"""

Rewards = Literal["binary"] | tuple[float, float]
"""The range of rewards: 0 or 1, or any number within (lowest, highest)."""

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]


def reward_range(rewards: Rewards) -> tuple[float, float]:
    """Return the lowest and the highest possible reward."""
    return (0.0, 1.0) if rewards == "binary" else rewards
