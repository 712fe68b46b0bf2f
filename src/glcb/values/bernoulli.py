"""Rewards of 0 and 1: the smallest tree, whose two leaves are the rewards themselves."""

import numpy as np

from glcb._arrays import State
from glcb.values.tree import Tree


class Bernoulli(Tree):
    """One network per arm, nothing to remember beside."""

    def __init__(self, arms: int) -> None:
        super().__init__(0.0, 1.0, 1, arms)
        self._untried = np.array([0.0, 1.0])
        self.leaves.outcomes[:] = self._untried

    def state(self) -> State:
        """Return nothing: the networks know it all."""
        return {}

    def restore(self, state: State) -> None:
        """Take over nothing."""
