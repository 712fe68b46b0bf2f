"""Every policy there is, and how to ask it what it has learned."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from glcb import Policy
from glcb._types import Rewards
from glcb.policies import registry

Maker = Callable[..., Policy]

POLICIES = {name: registry.get(name).make for name in registry.names()}
KINDS: dict[str, Rewards] = {"binary": "binary", "bounded": (-1.0, 3.0)}
ARMS = ("red", "green", "blue", "gray")
FEATURES = 3


def trained(policy: Policy, steps: int, seed: int = 0, contexts: int = 50) -> Policy:
    """Play ``steps`` steps on a few contexts that come again and again."""
    rng = np.random.default_rng(seed)
    pool = np.random.default_rng(99).random((contexts, policy.features))
    for _ in range(steps):
        x = pool[rng.integers(contexts)]
        policy.learn(x, policy.decide(x).arm, reward(policy, rng))
    return policy


def reward(policy: Policy, rng: np.random.Generator) -> float:
    """Draw a reward that ``policy`` may receive."""
    return float(rng.integers(2)) if policy.rewards == "binary" else float(rng.uniform(*policy.rewards))


def learned(policy: Policy) -> dict[str, bytes]:
    """Return every bit that ``policy`` has learned, the random generator left out."""
    snapshot = policy.__getstate__()
    return {name: array.tobytes() for name, array in snapshot.arrays.items()}


def everything(policy: Policy) -> tuple[dict[str, bytes], str]:
    """Return every bit of ``policy``, the random generator included."""
    return learned(policy), str(policy.__getstate__().generator)


@contextmanager
def eager_threads() -> Iterator[None]:
    """Let threads take turns as often as they can, to find what is not safe between them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
