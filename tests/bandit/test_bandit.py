"""Decisions, rewards and changes of arms."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from glcb import (
    Bandit,
    ClosedDecision,
    DuplicateReward,
    InvalidReward,
    InvalidSettings,
    NotSupported,
    UnknownArm,
    UnknownDecision,
)
from glcb.policies import registry
from tests.support.bandits import ARMS, FAST, counts_of, full_state, run, visitor

CONTEXT = {"country": "FR", "age": 31, "hour": 14}


def test_the_example_of_the_readme() -> None:
    bandit = Bandit(arms=["sports", "news", "games"])
    d = bandit.decide({"country": "FR", "age": 31, "hour": 14})
    assert d.arm in bandit.arms
    assert d.propensity == d.probabilities[d.arm] == pytest.approx(1 / 3)
    assert sum(d.probabilities.values()) == pytest.approx(1)
    bandit.reward(d.id, 1.0)
    assert bandit.reward_counts[d.arm] == 1


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_can_be_wrapped(name: str) -> None:
    bandit = run(Bandit(ARMS, policy=name), 60)
    assert sum(bandit.reward_counts.values()) == bandit.counts["rewarded"]
    decision = bandit.decide(CONTEXT)
    assert decision.sampled == registry.get(name).policy_class.is_randomized
    assert ("sampled" in repr(decision)) == decision.sampled


def test_it_learns_the_best_arm_per_country() -> None:
    bandit, rng = Bandit(ARMS, seed=1), np.random.default_rng(10_000)
    favorite = {"FR": "sports", "DE": "news", "IT": "games"}
    right = 0
    for step in range(1500):
        country = list(favorite)[rng.integers(3)]
        decision = bandit.decide({"country": country, "age": float(rng.normal(40, 10))})
        bandit.reward(decision.id, decision.arm == favorite[country])
        right += decision.arm == favorite[country] if step >= 500 else 0
    assert right > 850  # of 1000, and exploration alone costs 50


def test_rewards_on_a_range() -> None:
    bandit = run(Bandit(ARMS, rewards=(0.0, 1.0)), 30)
    decision = bandit.decide(CONTEXT)
    bandit.reward(decision.id, 0.35)
    with pytest.raises(InvalidReward, match="from 0 to 1"):
        bandit.reward(bandit.decide(CONTEXT).id, 1.5)


def test_only_eligible_arms_are_chosen() -> None:
    bandit = run(Bandit(ARMS, **FAST), 50)
    for _ in range(50):
        decision = bandit.decide(CONTEXT, eligible=["news", "games"])
        assert decision.arm in ("news", "games")
        assert decision.probabilities["sports"] == 0
        assert sum(decision.probabilities.values()) == pytest.approx(1)
    assert bandit.decide(CONTEXT, eligible=["news"]).propensity == 1


@pytest.mark.parametrize(
    ("arguments", "eligible"),
    [
        ({}, None),
        ({}, ["sports", "games"]),
        ({"exploration": 0.3, "exploration_mode": "uniform"}, None),
        ({"exploration": 0.3, "exploration_mode": "uniform"}, ["news", "games"]),
        ({"exploration": 0.0}, None),
        ({"exploration": 0.5, "policy": "linucb"}, None),
    ],
    ids=str,
)
def test_arms_are_chosen_with_the_reported_probabilities(
    arguments: dict[str, Any], eligible: list[str] | None
) -> None:
    bandit = run(Bandit(ARMS, max_pending=100, **arguments), 60)
    decisions = [bandit.decide({**CONTEXT, "member": True}, eligible=eligible) for _ in range(6000)]
    # The scales still change, and the probabilities with them: sum them up.
    expected = np.sum([decision.arm_probabilities for decision in decisions], axis=0)
    counts = np.array([sum(decision.arm == arm for decision in decisions) for arm in ARMS])
    possible = expected > 0
    assert counts[~possible].sum() == 0
    chi_square = float(((counts[possible] - expected[possible]) ** 2 / expected[possible]).sum())
    assert chi_square < 13.82  # 99.9 % of χ² with 2 degrees of freedom
    for decision in decisions:
        assert decision.propensity == decision.probabilities[decision.arm] > 0


def test_without_exploration_the_best_score_wins_and_ties_are_shared() -> None:
    bandit = Bandit(ARMS, exploration=0)
    assert bandit.decide(CONTEXT).propensity == pytest.approx(1 / 3)
    run(bandit, 100)
    for _ in range(20):
        decision = bandit.decide(CONTEXT)
        assert decision.propensity == 1
        assert decision.scores[ARMS.index(str(decision.arm))] == decision.scores.max()


def test_the_repr_of_a_decision() -> None:
    text = repr(Bandit(ARMS).decide(CONTEXT))
    assert text.startswith("BanditDecision(arm=")
    assert "'news': probability 0.3333, value" in text


# ---- rewards by id ----------------------------------------------------------------------------------


def test_rewards_can_arrive_in_any_order() -> None:
    bandit, direct = Bandit(ARMS, **FAST), Bandit(ARMS, **FAST)
    rng = np.random.default_rng(0)
    contexts = [visitor(rng) for _ in range(40)]
    decisions = [bandit.decide(context) for context in contexts]
    assert bandit.counts == counts_of(decisions=40, pending=40)
    for decision in reversed(decisions):
        bandit.reward(decision.id, 1)
    assert bandit.counts == counts_of(decisions=40, rewarded=40)
    # The reward is learned for the context as it was encoded at the decision.
    pending = [direct.decide(context) for context in contexts]
    encoded = [direct._core.pending.find(one.id).x for one in pending]
    assert direct._core.policy is not None
    for one, x in zip(reversed(pending), reversed(encoded), strict=True):
        direct._core.policy.learn(x, one.arm, 1, counted=True)
    state, other = bandit._snapshot().arrays, direct._snapshot().arrays
    for name in state:
        if name.startswith("policy."):
            assert np.array_equal(state[name], other[name]), name


def test_a_reward_for_a_decision_that_is_not_pending_says_why_and_changes_nothing() -> None:
    bandit = Bandit(ARMS, max_pending=8, **FAST)
    first, *_, last = [bandit.decide(CONTEXT, eligible=["sports", "news"]) for _ in range(9)]
    rewarded = bandit.decide(CONTEXT)
    bandit.reward(rewarded.id, 1)
    gone = bandit.decide(CONTEXT, eligible=["games"])
    bandit.remove_arm("games")
    before = full_state(bandit)
    with pytest.raises(ClosedDecision, match="8 newer decisions are pending"):
        bandit.reward(first.id, 1)
    with pytest.raises(DuplicateReward, match="has already been rewarded"):
        bandit.reward(rewarded.id, 1)
    with pytest.raises(ClosedDecision, match="its arm was removed"):
        bandit.reward(gone.id, 1)
    for unknown in ("nonsense", "", "1-00000000"):
        with pytest.raises(UnknownDecision, match="pass the id of a decision of this bandit"):
            bandit.reward(unknown, 1)
    invalid: list[Any] = [5, None, [last.id], last, math.nan]
    for wrong in invalid:
        with pytest.raises(UnknownDecision, match=rf"got {type(wrong).__name__}: .* pass d\.id"):
            bandit.reward(wrong, 1)
    bad: list[Any] = [0.5, 2, -1, None, "1", math.nan, [1]]
    for value in bad:
        with pytest.raises(InvalidReward, match="reward must be 0 or 1"):
            bandit.reward(last.id, value)
    assert full_state(bandit) == before
    bandit.reward(last.id, 1)


def test_an_id_of_another_bandit_is_unknown() -> None:
    one, other = Bandit(ARMS, **FAST), Bandit(ARMS, **FAST)
    other.decide({"age": 1.0})
    foreign = one.decide({"age": 1.0, "hour": 3, "country": "FR"})
    with pytest.raises(UnknownDecision):
        other.reward(foreign.id, 1)


def test_counts_add_up_and_memory_is_bounded() -> None:
    bandit = Bandit(ARMS, max_pending=20, **FAST)
    rng = np.random.default_rng(0)
    for _ in range(300):
        decision = bandit.decide(visitor(rng))
        if rng.random() < 0.3:
            bandit.reward(decision.id, 1)
        counts = bandit.counts
        assert 2 * counts["decisions"] == sum(counts.values())
        assert counts["pending"] <= 20
    assert len(bandit._core.pending._settled) <= 20


# ---- arms -------------------------------------------------------------------------------------------


def test_arms_can_be_added_and_removed_at_any_time() -> None:
    bandit = Bandit(ARMS, **FAST)
    bandit.add_arm("weather")
    bandit.remove_arm("sports")
    assert bandit.arms == ("news", "games", "weather")
    run(bandit, 60)
    bandit.add_arm("politics", like="news")
    assert bandit.reward_counts["politics"] == bandit.reward_counts["news"]
    context = {"country": "FR", "member": True}  # without numbers, whose scale would change in between
    decision = bandit.decide(context)
    assert decision.values[-1] == decision.values[0]
    bandit.remove_arm("news")
    assert bandit.arms == ("games", "weather", "politics")
    after = bandit.decide(context)
    assert after.values.tolist() == decision.values[1:].tolist()
    assert set(after.probabilities) == set(bandit.arms)
    with pytest.raises(UnknownArm):
        bandit.decide(CONTEXT, eligible=["news"])
    run(bandit, 60, seed=1)


def test_the_only_arm_cannot_be_removed() -> None:
    for bandit in (Bandit(["only"], **FAST), run(Bandit(["only"], **FAST), 5)):
        with pytest.raises(InvalidSettings, match="the only arm"):
            bandit.remove_arm("only")


@pytest.mark.baselines
def test_a_policy_with_fixed_arms_refuses_changes() -> None:
    bandit = run(Bandit(ARMS, policy="rms"), 5)
    before = full_state(bandit)
    with pytest.raises(NotSupported, match="RMS cannot add or remove arms"):
        bandit.add_arm("weather")
    with pytest.raises(NotSupported, match="RMS cannot add or remove arms"):
        bandit.remove_arm("news")
    assert full_state(bandit) == before
    assert bandit.arms == ARMS


# ---- reproducibility and threads ---------------------------------------------------------------------


def test_the_same_seed_gives_the_same_decisions() -> None:
    def choices(seed: int) -> list[tuple[str, str]]:
        bandit, rng = Bandit(ARMS, seed=seed, **FAST), np.random.default_rng(0)
        decisions = [bandit.decide(visitor(rng)) for _ in range(100)]
        return [(str(decision.arm), decision.id) for decision in decisions]

    assert choices(1) == choices(1)
    assert choices(1) != choices(2)


def test_bandit_and_policy_draw_different_random_numbers() -> None:
    numbers = Bandit(ARMS, seed=5)._core.random_numbers()
    draws = [numbers.fraction(), numbers.fraction(1), numbers.generator().random()]
    draws.append(np.random.default_rng(5).random())
    assert len(set(draws)) == 4


@pytest.mark.parametrize("name", ["glcb", "linucb"])
def test_many_threads_can_decide_and_reward(name: str) -> None:
    bandit = Bandit(ARMS, policy=name)
    threads, steps = 6, 60

    def work(number: int) -> list[str]:
        rng, ids = np.random.default_rng(number), []
        for _ in range(steps):
            decision = bandit.decide(visitor(rng))
            ids.append(decision.id)
            bandit.reward(decision.id, float(rng.integers(2)))
        return ids

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            ids = [one for many in pool.map(work, range(threads)) for one in many]
    finally:
        sys.setswitchinterval(before)
    total = threads * steps
    assert len(set(ids)) == total
    assert bandit.counts == counts_of(decisions=total, rewarded=total)
    assert sum(bandit.reward_counts.values()) == total


def test_arms_can_change_while_other_threads_decide() -> None:
    bandit = Bandit(ARMS, **FAST)
    bandit.decide(CONTEXT)

    def change() -> None:
        for i in range(100):
            bandit.add_arm(f"arm {i}", like="news")
            bandit.remove_arm(f"arm {i}")

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(100):
            decision = bandit.decide(visitor(rng))
            assert sum(decision.probabilities.values()) == pytest.approx(1)
            try:
                bandit.reward(decision.id, 1)
            except ClosedDecision:
                assert decision.arm not in ARMS

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(change), *(pool.submit(work, seed) for seed in range(3))]
        for future in futures:
            future.result()
    assert bandit.arms == ARMS
    counts = bandit.counts
    assert counts["decisions"] == 301
    assert 2 * counts["decisions"] == sum(counts.values())


def test_ids_are_numbered() -> None:
    bandit = run(Bandit(ARMS, **FAST), 5)
    numbers = [int(bandit.decide(CONTEXT).id.partition("-")[0]) for _ in range(5)]
    assert all(later == earlier + 1 for earlier, later in pairwise(numbers))
