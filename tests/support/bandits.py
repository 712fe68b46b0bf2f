"""Bandits, contexts and helpers shared by the tests."""

from typing import Any

import numpy as np

from glcb import Bandit

ARMS = ("sports", "news", "games")
FAST: dict[str, Any] = {"policy": "linucb"}
"""A policy that decides in microseconds, for tests that do not depend on the policy."""


def visitor(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a context with a number, a category and a boolean; some values are missing."""
    context: dict[str, Any] = {
        "age": int(rng.integers(18, 90)),
        "spent": float(rng.lognormal(3, 1)),
        "country": ["FR", "DE", "IT", "ES", "PL"][rng.integers(5)],
        "member": bool(rng.integers(2)),
    }
    if rng.random() < 0.1:
        context["age"] = None
    if rng.random() < 0.1:
        del context["spent"]
    if rng.random() < 0.1:
        context["campaign"] = f"c{rng.integers(30)}"
    return context


def run(bandit: Bandit, steps: int, seed: int = 0, rewarded: float = 0.8) -> Bandit:
    """Let a bandit decide for random visitors; a share of the decisions gets a reward."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        decision = bandit.decide(visitor(rng))
        if rng.random() < rewarded:
            bandit.reward(decision.id, float(rng.integers(2)))
    return bandit


def counts_of(**known: int) -> dict[str, int]:
    """Return the counts of a bandit; those that are not named are 0."""
    names = ("decisions", "rewarded", "timed_out", "evicted", "removed", "pending")
    assert known.keys() <= set(names)
    return dict.fromkeys(names, 0) | known


def full_state(bandit: Bandit) -> tuple[Any, ...]:
    """Return the whole state of a bandit in a form that can be compared."""
    snapshot = bandit._snapshot()
    arrays = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in snapshot.arrays.items()}
    return arrays, repr(snapshot.arguments), repr(snapshot.generator), repr(snapshot.about)
