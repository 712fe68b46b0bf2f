"""Financial with all or nothing: only the best portfolio of the day pays."""

import numpy as np

from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream
from glcb.tasks.financial import Financial
from glcb.tasks.registry import register


@register
class FinancialBinary(Financial):
    """As the financial task, but the best portfolio of a day brings 1 and all others bring 0."""

    name = "financial-binary"
    rewards: Rewards = "binary"

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``: the days and the best portfolios of the financial task."""
        graded = super().stream(seed, steps)
        best = graded.rewards.argmax(axis=1)
        return Stream(graded.contexts, np.eye(len(self.arms))[best])
