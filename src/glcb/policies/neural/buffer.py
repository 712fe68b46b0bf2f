"""All the data that a policy has seen, for those that train on it again and again."""

import numpy as np

from glcb._arrays import State, fill
from glcb._types import Float32, Float64, Int64
from glcb.policies.neural.network import Batch


class Buffer:
    """Contexts, arms and rewards, in arrays that double when they are full."""

    def __init__(self, features: int, arms: int) -> None:
        self._arms_count = arms
        self._contexts: Float32 = np.empty((64, features), np.float32)
        self._arms: Int64 = np.empty(64, np.int64)
        self._rewards: Float64 = np.empty(64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(self, x: Float32, arm: int, reward: float) -> None:
        """Keep one reward and where it came from."""
        if self._used == len(self._arms):
            self._contexts = np.concatenate([self._contexts, np.empty_like(self._contexts)])
            self._arms = np.concatenate([self._arms, np.empty_like(self._arms)])
            self._rewards = np.concatenate([self._rewards, np.empty_like(self._rewards)])
        self._contexts[self._used] = x
        self._arms[self._used] = arm
        self._rewards[self._used] = reward
        self._used += 1

    def all(self) -> Batch:
        """Return everything, in the order in which it came."""
        return Batch(self._contexts[: self._used], self._arms[: self._used], self._rewards[: self._used])

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Batch:
        """Draw rows uniformly with replacement, in the types that the networks compute with."""
        rows = rng.integers(self._used, size=shape)
        return Batch(
            self._contexts[rows], self._arms[rows].astype(np.int32), self._rewards[rows].astype(np.float32)
        )

    def state(self) -> State:
        """Return everything as arrays."""
        return self.all()._asdict()

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError if it cannot be ours."""
        rows, own = len(state["arms"]), Batch(self._contexts, self._arms, self._rewards)
        given = Batch(*(np.empty((rows, *array.shape[1:]), array.dtype) for array in own))
        fill(given._asdict(), state)
        if (given.arms >= self._arms_count).any():
            raise ValueError("the stored data have an arm that the policy does not have")
        for x, arm, reward in zip(*given, strict=True):
            self.add(x, arm, reward)
