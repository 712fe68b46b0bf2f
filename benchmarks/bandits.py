"""GLCB policies prepared for timing: every cell is allocated, so no decision skips a memory access."""

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.timing import Seconds, Step
from glcb._arrays import Float64
from glcb._types import Rewards
from glcb.policies import registry
from glcb.policies.glcb.policy import GLCB

Kind = Literal["binary", "tree"]
_SETTLING_STEPS = 200


@dataclass(frozen=True)
class Shape:
    """The size of a problem."""

    kind: Kind
    features: int
    arms: int

    @property
    def rewards(self) -> Rewards:
        """The ``rewards`` argument of a policy."""
        return "binary" if self.kind == "binary" else (0.0, 1.0)

    def reward(self, rng: np.random.Generator) -> float:
        """Draw a valid reward."""
        return float(rng.integers(2)) if self.kind == "binary" else float(rng.random())

    def __str__(self) -> str:
        return f"{self.features} features, {self.arms} arms" + (", tree" if self.kind == "tree" else "")


def full_bandit(policy: str, shape: Shape, rng: np.random.Generator, **settings: Any) -> GLCB:
    """Return a policy that has learned in every cell.

    Random contexts would take very long to reach every signature, and some signatures belong to no context.
    So each of the first steps overwrites the signature between the decision and the update, once per
    signature of the unit with the most signatures.
    """
    bandit = registry.get(policy).create(shape.arms, shape.features, rewards=shape.rewards, **settings)
    if not isinstance(bandit, GLCB):
        raise TypeError(f"{policy} is not a GLCB policy and has no cells to fill")
    signatures = 1 << bandit._gates.hyperplanes
    for step in range(signatures.max()):
        x = rng.random(shape.features)
        bandit.ensure_capacity()  # now, because it may empty the cache of the last context
        bandit.decide(x)
        bandit._arrays.arrays.context_cache.signature[:] = step % signatures
        bandit.learn(x, step % shape.arms, shape.reward(rng))
    for step in range(_SETTLING_STEPS):
        bandit.learn(rng.random(shape.features), step % shape.arms, shape.reward(rng))
    return bandit


def public_step(bandit: GLCB, shape: Shape, rng: np.random.Generator) -> Step:
    """Return a step that decides and learns through the public methods."""

    def step(x: Float64) -> Seconds:
        reward = shape.reward(rng)
        start = time.perf_counter()
        arm = bandit.decide(x).arm
        decided = time.perf_counter()
        bandit.learn(x, arm, reward)
        return {"decide": decided - start, "learn": time.perf_counter() - decided}

    return step


def kernel_step(bandit: GLCB) -> Step:
    """Return a step that runs only the compiled part of a decision and allocates its outputs."""

    def step(x: Float64) -> Seconds:
        context = x.astype(np.float32)
        start = time.perf_counter()
        bandit._estimate(context)
        return {"kernel": time.perf_counter() - start}

    return step
