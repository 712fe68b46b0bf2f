"""The data of a policy that is repeatedly trained on all past rewards."""

from typing import Any, NamedTuple

import numpy as np

from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into


class Batch(NamedTuple):
    """A batch of data, one row per reward, as NumPy or JAX arrays."""

    contexts: Any
    arms: Any
    rewards: Any


class Buffer:
    """Contexts, arms and rewards, in arrays that double in size when they are full."""

    def __init__(self, features: int, arms: int) -> None:
        self._arms_count = arms
        self._contexts: Float32 = np.empty((64, features), np.float32)
        self._arms: Int64 = np.empty(64, np.int64)
        self._rewards: Float64 = np.empty(64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(self, x: Float32, arm: int, reward: float) -> None:
        """Append one reward with its context and arm."""
        if self._used == len(self._arms):
            self._contexts = np.concatenate([self._contexts, np.empty_like(self._contexts)])
            self._arms = np.concatenate([self._arms, np.empty_like(self._arms)])
            self._rewards = np.concatenate([self._rewards, np.empty_like(self._rewards)])
        self._contexts[self._used] = x
        self._arms[self._used] = arm
        self._rewards[self._used] = reward
        self._used += 1

    def all(self) -> Batch:
        """Return all rows in order of arrival."""
        return Batch(self._contexts[: self._used], self._arms[: self._used], self._rewards[: self._used])

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Batch:
        """Draw rows uniformly with replacement, in the data types of neural networks."""
        rows = rng.integers(self._used, size=shape)
        return Batch(
            self._contexts[rows], self._arms[rows].astype(np.int32), self._rewards[rows].astype(np.float32)
        )

    def snapshot(self) -> Arrays:
        """Return the data as arrays."""
        return self.all()._asdict()

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise ValueError or KeyError if it is invalid."""
        rows, own = len(arrays["arms"]), Batch(self._contexts, self._arms, self._rewards)
        stored = Batch(*(np.empty((rows, *array.shape[1:]), array.dtype) for array in own))
        copy_into(stored._asdict(), arrays)
        if (stored.arms >= self._arms_count).any():
            raise ValueError("the stored data contain an arm that the policy does not have")
        for x, arm, reward in zip(*stored, strict=True):
            self.add(x, arm, reward)
