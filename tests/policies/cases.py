"""The policies under test, and helpers to train and compare them.

A law that a policy can break is tested for every policy. A law that holds by construction of the base class
is tested for one policy of each family, because the families override different hooks.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from glcb import Policy
from glcb._types import Rewards
from glcb.policies import registry

Maker = Callable[..., Policy]

POLICIES = {name: registry.get(name).policy_class for name in registry.names()}
REPRESENTATIVES = ("ucb1", "linucb", "glcb", "rms")
"""One policy of each family: simple, linear, gated linear, neural."""
REWARD_KINDS: dict[str, Rewards] = {"binary": "binary", "bounded": (-1.0, 3.0)}
CASES = [
    (name, kind)
    for name, policy in POLICIES.items()
    for kind in REWARD_KINDS
    if kind == "bounded" or not policy.stores_data
]
"""All policies with both kinds of reward; neural policies do not distinguish them and have one case."""
ARMS = ("red", "green", "blue", "gray")
FEATURES = 3


def trained(policy: Policy, steps: int, seed: int = 0, contexts: int = 50) -> Policy:
    """Decide and learn for ``steps`` steps on a fixed set of contexts."""
    rng = np.random.default_rng(seed)
    pool = np.random.default_rng(99).random((contexts, policy.features))
    for _ in range(steps):
        x = pool[rng.integers(contexts)]
        policy.learn(x, policy.decide(x).arm, reward(policy, rng))
    return policy


def reward(policy: Policy, rng: np.random.Generator) -> float:
    """Draw a valid reward."""
    return float(rng.integers(2)) if policy.rewards == "binary" else float(rng.uniform(*policy.rewards))


def learned_state(policy: Policy) -> dict[str, bytes]:
    """Return every bit that ``policy`` has learned, without the random generator."""
    return {name: array.tobytes() for name, array in policy.snapshot().arrays.items()}


def full_state(policy: Policy) -> tuple[dict[str, bytes], str]:
    """Return every bit of ``policy``, with the random generator."""
    return learned_state(policy), str(policy.rng_state)


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    """Switch threads as often as possible, to expose races."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
