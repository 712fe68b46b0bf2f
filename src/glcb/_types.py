"""Types that several rooms share."""

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
