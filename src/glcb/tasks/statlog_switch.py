"""Statlog in a world that changes at once."""

import numpy as np

from glcb.tasks.base import STEPS, Stream
from glcb.tasks.registry import register
from glcb.tasks.statlog import Statlog


@register
class StatlogSwitch(Statlog):
    """As the statlog task, but halfway every arm takes over the state that the next one stood for."""

    name = "statlog-switch"

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``: the rows of the statlog task."""
        still = super().stream(seed, steps)
        rewards = still.rewards.copy()
        later = rewards[len(rewards) // 2 :]
        later[:] = np.roll(later, -1, axis=1)
        return Stream(still.contexts, rewards)
