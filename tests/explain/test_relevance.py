"""On tasks with known relevant features, these have the largest contributions."""

from typing import Any

import numpy as np

from glcb import GLCB, Bandit
from glcb.bench import simulate
from glcb.tasks.base import stream_generators
from glcb.tasks.linear import SparseLinear, unit_columns

CLEAR = 0.3
"""Within a few thousand decisions, noise hides features of smaller weight. Weights have the norm 1."""


def test_on_sparse_linear_relevant_features_contribute_most() -> None:
    task, seed, steps = SparseLinear(), 10_100, 2500
    stream = task.stream(seed, steps)
    bandit = GLCB(task.arms, task.features, rewards=task.rewards, seed=seed)
    simulate(bandit, stream)
    weights = np.abs(unit_columns(task._weights(stream_generators(seed, steps, 3)[1]))).T
    sizes = np.mean([np.abs(bandit.explain(x).contributions) for x in stream.contexts[-100:]], axis=0)
    checked = 0
    for arm, own in enumerate(weights):
        if bandit.reward_counts[arm] >= 200:
            assert sizes[arm, own > CLEAR].min() > sizes[arm, own == 0].max(), arm
            assert np.corrcoef(sizes[arm], own)[0, 1] > 0.9, arm
            checked += 1
    assert checked >= 5


def test_on_visitors_relevant_features_contribute_most() -> None:
    bandit, rng = Bandit(["sports", "news"], seed=10_000), np.random.default_rng(10_000)

    def visitor() -> dict[str, Any]:
        return {
            "country": ["FR", "DE", "IT", "ES"][rng.integers(4)],
            "browser": ["a", "b", "c"][rng.integers(3)],
            "age": int(rng.integers(18, 80)),
            "hour": int(rng.integers(24)),
            "member": bool(rng.integers(2)),
            "noise": float(rng.normal()),
        }

    def reward_probability(arm: object, context: dict[str, Any]) -> float:
        if arm == "sports":
            return 0.8 if context["country"] == "FR" else 0.2
        return 0.8 if context["age"] > 50 else 0.2

    for _ in range(3000):
        context = visitor()
        decision = bandit.decide(context)
        bandit.reward(decision.id, float(rng.random() < reward_probability(decision.arm, context)))
    explanations = [bandit.explain(visitor()) for _ in range(100)]
    sizes = np.mean([np.abs(one.contributions) for one in explanations], axis=0)
    by_name = [dict(zip(explanations[0].features, row, strict=True)) for row in sizes]
    for size_of, relevant in zip(by_name, ["country", "age"], strict=True):
        assert size_of.pop(relevant) > 2 * max(size_of.values())
