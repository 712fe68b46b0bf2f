"""Bounds on the shares of arms: the projection, and how bandits apply it."""

from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidSettings
from glcb.bandit import recorded
from glcb.bandit.offline import OfflineBandit
from glcb.explore.shares import ShareBounds, bounded


def test_the_projection_is_the_closest_distribution_within_the_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        arms = int(rng.integers(1, 8))
        shares = rng.dirichlet(np.full(arms, 0.3))
        low = rng.random(arms) / arms
        high = np.minimum(1, low + rng.random(arms) * rng.choice([0.3, 1]))
        found = bounded(shares, ShareBounds(low, high))
        assert found.sum() == pytest.approx(1, abs=1e-12)
        if high.sum() < 1:
            assert found == pytest.approx(high / high.sum())
            continue
        assert (found >= low - 1e-12).all()
        assert (found <= high + 1e-12).all()
        inside = (found > low + 1e-9) & (found < high - 1e-9) & (shares > 1e-12)
        if inside.any():  # all arms have one factor, as far as their bounds permit
            factor = (found[inside] / shares[inside])[0]
            assert found == pytest.approx(np.clip(factor * shares, low, high), abs=1e-9)


def test_arms_without_a_probability_get_only_what_the_others_cannot_take() -> None:
    bounds = ShareBounds(np.array([0.0, 0.1, 0.0]), np.array([0.5, 1.0, 1.0]))
    assert bounded(np.array([1.0, 0.0, 0.0]), bounds) == pytest.approx([0.5, 0.25, 0.25])
    assert bounded(np.array([0.6, 0.4, 0.0]), bounds) == pytest.approx([0.5, 0.5, 0.0])


def test_every_decision_of_a_bandit_is_within_the_bounds() -> None:
    bandit = Bandit(
        ["a", "b", "c"], policy="linucb", exploration=0.0, shares={"a": (0.2, 0.5), "b": (0.0, 0.1)}
    )
    for number in range(50):
        decision = bandit.decide({"x": number / 50}, uniform=number % 5 == 0)
        assert 0.2 <= decision.probabilities["a"] <= 0.5
        assert decision.probabilities["b"] <= 0.1 + 1e-12
        assert decision.propensity == decision.probabilities[decision.arm]
        bandit.reward(decision.id, float(decision.arm == "c"))
    ranking = bandit.rank({"x": 0.5}, k=2)
    assert ranking.slot_probabilities[0][0] >= 0.2
    assert bandit.decide({"x": 0.5}, eligible=["b"]).propensity == 1.0
    bandit.set_params(shares={"c": (0.9, 1.0)})
    assert Bandit._from_snapshot(bandit._snapshot()).decide({"x": 0.1}).probabilities["c"] >= 0.9
    bandit.remove_arm("c")
    assert bandit.get_params()["shares"] is None


@pytest.mark.parametrize("arms", [["a", "b", "c"], {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}}])
def test_a_preview_has_the_probabilities_of_the_next_decision(arms: Any) -> None:
    bandit = Bandit(arms, policy="linucb", shares={"c": (0.4, 0.6)})
    for _ in range(5):
        preview = OfflineBandit(bandit).preview({"x": 0.5})
        decision = bandit.decide({"x": 0.5})
        assert dict(zip(preview.arms, preview.probabilities.tolist(), strict=True)) == decision.probabilities
        bandit.reward(decision.id, float(decision.arm == "a"))


def test_an_arm_that_is_served_has_the_propensity_1() -> None:
    bandit = Bandit(["a", "b"], policy="linucb")
    decision = bandit.decide({"x": 1}, serve="b")
    assert (decision.arm, decision.propensity) == ("b", 1.0)
    assert bandit.reward(decision.id, 1)
    assert bandit.rank({"x": 1}, k=2, serve=["b"]).arms == ("b", "a")


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"a": (0.6, 1), "b": (0.6, 1)}, "minimum shares must add up to at most 1"),
        ({"a": (0, 0.3), "b": (0, 0.3)}, "maximum shares of all arms must add up to at least 1"),
        ({"z": (0, 1)}, "'z', which is not an arm"),
        ({"a": (0.5, 0.4)}, "the maximum share of 'a'"),
        ({"a": 0.5}, "a minimum and a maximum"),
        ([1], "shares must be a dict"),
    ],
)
def test_bounds_that_cannot_be_kept_are_refused(shares: Any, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        Bandit(["a", "b"], shares=shares)


RULES: list[dict[str, Any]] = [
    {"reward_timeout": 30.0, "default_reward": 0.0, "reward_aggregation": "first"},
    {"reward_timeout": 20.0, "default_reward": None, "reward_aggregation": "sum"},
    {"reward_timeout": 50.0, "default_reward": None, "reward_aggregation": "first"},
]


def test_the_rules_of_rewards_and_forgetting_can_change_while_decisions_are_pending() -> None:
    rng, now = np.random.default_rng(0), 0.0
    bandit = Bandit(["a", "b"], policy="linucb", clock=lambda: now, max_pending=40)
    ids: list[str] = []
    for number in range(300):
        now += 1
        ids.append(bandit.decide({"x": float(rng.random())}).id)
        if recorded.is_pending(bandit, ids[-1 - number % 5]):
            bandit.reward(ids[-1 - number % 5], float(rng.random() < 0.5), idempotency_key=number)
        if number % 40 == 39:
            bandit.set_params(**RULES[number // 40 % len(RULES)], half_life=50 + number)
        counts = bandit.counts
        assert counts["decisions"] == sum(counts.values()) - counts["decisions"]
    assert Bandit._from_snapshot(bandit._snapshot()).counts == bandit.counts
    with pytest.raises(InvalidSettings, match="reward_timeout cannot be removed"):
        bandit.set_params(reward_timeout=None, default_reward=None, reward_aggregation="first")
