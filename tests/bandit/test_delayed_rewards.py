"""Rewards that are delayed, repeated or absent."""

import copy
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.labels import GROUPS, biases
from glcb import (
    Bandit,
    ClosedDecision,
    DuplicateDecision,
    DuplicateReward,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
)
from glcb.bandit import recorded
from glcb.bandit.pending import MAX_KEYS
from tests.support.bandits import ARMS, FAST, full_state, visitor
from tests.support.manual_clock import CONTEXT, ManualClock, one_arm, summary


def means(bandit: Bandit) -> list[float]:
    """Return the mean reward of each arm, which is what UCB1 learns."""
    result: list[float] = bandit._snapshot().arrays["policy.means"].tolist()
    return result


# ---- timeouts ---------------------------------------------------------------------------------------


def test_without_a_timeout_the_clock_is_not_read() -> None:
    def broken() -> float:
        raise AssertionError

    bandit = Bandit(ARMS, clock=broken, **FAST)
    bandit.reward(bandit.decide(CONTEXT).id, 1)
    bandit.settle()


@pytest.mark.parametrize("default", [None, 0])
def test_many_decisions_are_due_after_the_timeout(default: float | None) -> None:
    clock = ManualClock()
    bandit = Bandit(ARMS, reward_timeout=60, default_reward=default, clock=clock, **FAST)
    for _ in range(3):
        bandit.decide(CONTEXT)
    assert not recorded.has_due(bandit)
    clock.now += 61
    assert [recorded.has_due(bandit, more_than) for more_than in (0, 2, 3)] == [True, True, False]
    bandit.settle()
    assert not recorded.has_due(bandit)


def test_many_decisions_are_due_if_an_early_reward_lowers_the_label_age() -> None:
    clock = ManualClock()
    bandit = Bandit(ARMS, reward_timeout=60, default_reward=0, clock=clock, **FAST)
    for _ in range(3):
        bandit.decide(CONTEXT)
    clock.now += 10
    last = bandit.decide(CONTEXT)
    clock.now += 1
    assert not recorded.has_due(bandit)
    bandit.reward(last.id, 1)
    assert [recorded.has_due(bandit, more_than) for more_than in (0, 2, 4)] == [True, True, False]


def test_a_reward_after_the_timeout_is_refused() -> None:
    clock = ManualClock()
    bandit = Bandit(ARMS, reward_timeout=60, clock=clock, **FAST)
    early, late = bandit.decide(CONTEXT), bandit.decide(CONTEXT)
    clock.now += 60
    bandit.reward(early.id, 1)
    clock.now += 0.5
    before = full_state(bandit)
    with pytest.raises(ClosedDecision, match="its timeout of 60 seconds has passed"):
        bandit.reward(late.id, 1)
    assert full_state(bandit) == before
    bandit.settle()
    assert summary(bandit) == (2, 1, 1, 0)
    assert sum(bandit.reward_counts.values()) == 1
    with pytest.raises(ClosedDecision, match="its timeout of 60 seconds has passed"):
        bandit.reward(late.id, 1)


def test_is_pending_tells_whether_a_reward_would_be_accepted() -> None:
    clock = ManualClock()
    bandit = one_arm(clock, max_pending=2)
    first, second, third = (bandit.decide(CONTEXT).id for _ in range(3))
    assert [recorded.is_pending(bandit, name) for name in (first, second, third)] == [False, True, True]
    bandit.reward(second, 1)
    assert not recorded.is_pending(bandit, second)
    clock.now += 60
    assert recorded.is_pending(bandit, third)
    clock.now += 1
    before = full_state(bandit)
    assert not recorded.is_pending(bandit, third)
    invalid: list[Any] = ["", "1-00000000", None, 5, [third], {}]
    assert not any(map(partial(recorded.is_pending, bandit), invalid))
    assert full_state(bandit) == before


def test_the_default_reward_is_learned_at_the_timeout() -> None:
    clock = ManualClock()
    bandit = one_arm(clock, default_reward=2)
    for _ in range(3):
        bandit.decide(CONTEXT)
    clock.now += 61
    rewarded = bandit.decide(CONTEXT)
    assert summary(bandit) == (4, 0, 3, 1)
    assert bandit.reward_counts == {"only": 3}
    assert means(bandit) == [2]
    bandit.reward(rewarded.id, 6)
    assert summary(bandit) == (4, 1, 3, 0)
    assert means(bandit) == [3]


def test_a_clock_that_goes_back_only_delays_timeouts() -> None:
    clock = ManualClock()
    bandit = one_arm(clock)
    first = bandit.decide(CONTEXT)
    clock.now -= 500
    second = bandit.decide(CONTEXT)
    clock.now += 30
    bandit.reward(second.id, 1)
    bandit.reward(first.id, 1)
    assert summary(bandit) == (2, 2, 0, 0)


@pytest.mark.parametrize("reading", [math.nan, None, "noon"])
def test_a_clock_that_returns_no_number_is_refused_and_changes_nothing(reading: Any) -> None:
    clock = ManualClock()
    bandit = one_arm(clock)
    decision = bandit.decide(CONTEXT)
    before = full_state(bandit)
    clock.now = reading
    with pytest.raises(InvalidSettings, match="clock must return the time"):
        bandit.decide(CONTEXT)
    with pytest.raises(InvalidSettings, match="clock must return the time"):
        bandit.reward(decision.id, 1)
    assert full_state(bandit) == before


# ---- several rewards --------------------------------------------------------------------------------


@pytest.mark.parametrize(("reward_aggregation", "learned"), [("last", 1), ("max", 4), ("sum", 7)])
def test_several_rewards_are_aggregated_and_learned_at_the_timeout(
    reward_aggregation: Any, learned: float
) -> None:
    clock = ManualClock()
    bandit = one_arm(clock, reward_aggregation=reward_aggregation, default_reward=9)
    decision = bandit.decide(CONTEXT)
    for value in (2, 4, 1):
        bandit.reward(decision.id, value)
        clock.now += 20
    assert summary(bandit) == (1, 0, 0, 1)
    assert bandit.reward_counts == {"only": 0}
    clock.now += 1
    with pytest.raises(ClosedDecision, match="timeout has passed and its aggregated reward was learned"):
        bandit.reward(decision.id, 3)
    bandit.settle()
    assert summary(bandit) == (1, 1, 0, 0)
    assert means(bandit) == [learned]
    with pytest.raises(ClosedDecision, match="timeout has passed and its aggregated reward was learned"):
        bandit.reward(decision.id, 3)


def test_a_sum_is_clipped_to_the_range() -> None:
    clock = ManualClock()
    bandit = one_arm(clock, reward_aggregation="sum")
    decision = bandit.decide(CONTEXT)
    for value in (8, 9):
        bandit.reward(decision.id, value)
    with pytest.raises(InvalidReward):
        bandit.reward(decision.id, 11)
    clock.now += 61
    bandit.settle()
    assert means(bandit) == [10]


def test_the_first_reward_is_learned_at_once() -> None:
    bandit = one_arm(ManualClock())
    decision = bandit.decide(CONTEXT)
    bandit.reward(decision.id, 5)
    assert means(bandit) == [5]
    with pytest.raises(DuplicateReward):
        bandit.reward(decision.id, 6)


def test_rewards_so_far_are_learned_when_newer_decisions_displace_the_decision() -> None:
    bandit = one_arm(ManualClock(), reward_aggregation="max", max_pending=2, default_reward=0)
    first = bandit.decide(CONTEXT)
    bandit.reward(first.id, 5)
    bandit.decide(CONTEXT)
    bandit.decide(CONTEXT)
    assert summary(bandit) == (3, 1, 0, 2)
    assert means(bandit) == [5]
    bandit.decide(CONTEXT)  # evicts a decision without a reward
    assert summary(bandit) == (4, 1, 1, 2)
    assert bandit.counts["evicted"] == 1
    assert means(bandit) == [2.5]


def test_without_a_default_nothing_is_learned_from_an_evicted_decision_without_a_reward() -> None:
    bandit = one_arm(ManualClock(), max_pending=2)
    for _ in range(3):
        bandit.decide(CONTEXT)
    assert bandit.counts["evicted"] == 1
    assert bandit.reward_counts == {"only": 0}


# ---- labels -----------------------------------------------------------------------------------------


def labeled(clock: ManualClock, delay: float, count: int = 10, **arguments: Any) -> Bandit:
    """Return a bandit that has learned ``count`` rewards of 10, each after the same delay."""
    bandit = one_arm(clock, default_reward=0, **arguments)
    for _ in range(count):
        decision = bandit.decide(CONTEXT)
        clock.now += delay
        bandit.reward(decision.id, 10)
    bandit.settle()
    assert means(bandit) == [10]
    return bandit


def test_rewards_and_defaults_are_learned_at_the_same_age() -> None:
    clock = ManualClock()
    bandit = labeled(clock, 20)
    rewarded, _other = bandit.decide(CONTEXT), bandit.decide(CONTEXT)
    clock.now += 5
    bandit.reward(rewarded.id, 10)
    clock.now += 14
    bandit.settle()
    assert bandit.reward_counts == {"only": 10}
    assert summary(bandit) == (12, 11, 0, 1)
    clock.now += 1
    bandit.settle()
    assert bandit.reward_counts == {"only": 12}
    assert means(bandit) == [pytest.approx(110 / 12)]
    assert summary(bandit) == (12, 11, 0, 1)


def test_a_reward_after_the_label_is_learned_and_takes_a_default_back() -> None:
    clock = ManualClock()
    bandit = labeled(clock, 20)
    late = bandit.decide(CONTEXT)
    clock.now += 30
    bandit.settle()
    assert bandit.reward_counts == {"only": 11}
    bandit.reward(late.id, 10)
    assert means(bandit) == [pytest.approx(110 / 12)]
    with pytest.raises(DuplicateReward):
        bandit.reward(late.id, 10)
    for _ in range(2):
        bandit.decide(CONTEXT)
    clock.now += 60
    bandit.settle()
    assert bandit.reward_counts == {"only": 13}  # 13 decisions: one default was learned, one was not
    assert means(bandit) == [pytest.approx(110 / 13)]
    clock.now += 1
    bandit.settle()
    assert summary(bandit) == (13, 11, 2, 0)
    assert bandit.reward_counts == {"only": 13}


def test_until_the_first_reward_the_label_age_is_the_timeout() -> None:
    clock = ManualClock()
    bandit = one_arm(clock, default_reward=0)
    bandit.decide(CONTEXT)
    clock.now += 59
    bandit.settle()
    assert bandit.reward_counts == {"only": 0}
    clock.now += 2
    bandit.settle()
    assert bandit.reward_counts == {"only": 1}


def test_rewards_that_are_reported_at_once_are_learned_at_once() -> None:
    bandit = one_arm(ManualClock(), default_reward=0)
    for count in range(1, 30):
        bandit.reward(bandit.decide(CONTEXT).id, 5)
        assert bandit.reward_counts == {"only": count}


@pytest.mark.parametrize("slow", [5.0, 40.0])
def test_the_mean_of_the_labels_is_that_of_the_rewards_at_the_timeout(slow: float) -> None:
    """Two arms have the same click rate; the clicks on one of them arrive later."""
    clock, rng = ManualClock(), np.random.default_rng(10_000)
    bandit = Bandit(
        ["fast", "slow"], policy="ucb1", exploration=0, reward_timeout=300, default_reward=0, clock=clock
    )
    mean_delays = {"fast": 5.0, "slow": slow}
    reports: list[tuple[float, str]] = []
    totals = []
    for _ in range(2000):
        clock.now += 1
        for report in sorted(report for report in reports if report[0] <= clock.now):
            bandit.reward(report[1], 1)
            reports.remove(report)
        decision = bandit.decide(CONTEXT, uniform=True)
        delay = min(rng.exponential(mean_delays[str(decision.arm)]), 290)
        if rng.random() < 0.3:
            reports.append((clock.now + delay, decision.id))
        totals.append(means(bandit))
    error = np.sqrt(0.3 * 0.7 / 1000)
    early, final = np.mean(totals[300:600], axis=0), totals[-1]
    assert np.all(np.abs(np.subtract(final, 0.3)) < 4 * error)
    assert np.all(early < 0.4)  # learned as they arrive, clicks would come first and the mean would be 1
    assert np.all(early > 0.2)


def test_the_labels_of_every_arm_and_context_are_close_to_the_rewards() -> None:
    """Delays depend on the arm and click rates on the context. As known, clicks would be learned first."""
    for early, late in (biases("label age", seed) for seed in (10_000, 10_001)):
        frequent = [group for group in GROUPS if group.kind == 1]
        assert max(abs(early[group]) for group in frequent) < 0.2
        assert max(abs(late[group]) for group in frequent) < 0.07
    early, late = biases("as known", 10_000)
    assert min(early[group] for group in GROUPS) > 0.15
    assert min(late[group] for group in GROUPS) > 0.03


def test_the_id_of_a_reward_that_is_not_learned_yet_cannot_be_reused() -> None:
    clock = ManualClock()
    bandit = one_arm(clock, default_reward=0, max_pending=4)
    first, *others = [bandit.decide(CONTEXT).id for _ in range(3)]
    clock.now += 10
    bandit.reward(first, 1)  # so the label age is 10 seconds
    clock.now += 10
    bandit.decide(CONTEXT, id="visit")
    for decision in ("visit", *others):
        bandit.reward(decision, 1)
    for _ in range(2):
        bandit.reward(bandit.decide(CONTEXT).id, 1)
    with pytest.raises(DuplicateDecision, match="visit"):
        bandit.decide(CONTEXT, id="visit")
    clock.now += 20
    bandit.settle()
    bandit.decide(CONTEXT, id="visit")


def test_removing_an_arm_drops_its_rewards_that_are_not_learned_yet() -> None:
    clock = ManualClock()
    bandit = Bandit(["a", "b"], policy="ucb1", reward_timeout=60, default_reward=0, clock=clock)
    slow = bandit.decide(CONTEXT, eligible=["a"])
    clock.now += 30
    bandit.reward(slow.id, 1)
    bandit.reward(bandit.decide(CONTEXT, eligible=["b"]).id, 1)
    bandit.remove_arm("b")
    clock.now += 61
    bandit.settle()
    assert summary(bandit) == (2, 2, 0, 0)
    assert bandit.reward_counts == {"a": 1}


def test_a_warning_comes_before_the_first_eviction() -> None:
    clock = ManualClock()
    bandit = Bandit(ARMS, max_pending=400, reward_timeout=1000, default_reward=0, clock=clock, **FAST)

    def decide(count: int) -> None:
        for _ in range(count):
            clock.now += 1
            bandit.decide(CONTEXT)

    with pytest.warns(UserWarning, match="set max_pending to at least 1,0"):
        decide(300)
    assert bandit.counts["evicted"] == 0
    decide(200)  # it is not repeated
    assert bandit.counts["evicted"] > 0


def test_a_warning_comes_before_the_first_eviction_if_traffic_grows_slowly() -> None:
    clock = ManualClock()
    bandit = Bandit(ARMS, max_pending=400, reward_timeout=300, default_reward=0, clock=clock, **FAST)

    def decide_ever_faster() -> None:
        interval = 1.0
        while bandit.counts["pending"] < 380:
            interval *= 0.9995
            clock.now += interval
            bandit.decide(CONTEXT)

    with pytest.warns(UserWarning, match="max_pending=400, the oldest are evicted: set max_pending to at"):
        decide_ever_faster()
    assert bandit.counts["evicted"] == 0
    assert bandit.counts["timed_out"] > 0


def test_there_is_no_warning_if_decisions_time_out_first() -> None:
    clock = ManualClock()
    bandit = Bandit(ARMS, max_pending=400, reward_timeout=300, default_reward=0, clock=clock, **FAST)
    for _ in range(1000):
        clock.now += 1
        bandit.decide(CONTEXT)
    assert bandit.counts["evicted"] == 0


# ---- idempotency keys --------------------------------------------------------------------------------


def test_the_same_key_counts_once_even_after_the_timeout() -> None:
    clock = ManualClock()
    bandit = one_arm(clock, reward_aggregation="sum")
    decision, other = bandit.decide(CONTEXT), bandit.decide(CONTEXT)
    for value, key in ((2, "a"), (2, "a"), (3, 7), (5, "7"), (9, 7)):
        bandit.reward(decision.id, value, idempotency_key=key)
    bandit.reward(other.id, 4, idempotency_key="a")
    clock.now += 61
    bandit.settle()
    assert means(bandit) == [7]  # of 2 + 3 + 5 and 4
    before = full_state(bandit)
    bandit.reward(decision.id, 2, idempotency_key="a")
    assert full_state(bandit) == before
    with pytest.raises(ClosedDecision):
        bandit.reward(decision.id, 2, idempotency_key="b")


def test_a_repeated_reward_with_the_same_key_is_ignored() -> None:
    bandit = Bandit(ARMS, **FAST)
    decision = bandit.decide(CONTEXT)
    bandit.reward(decision.id, 1, idempotency_key="k")
    before = full_state(bandit)
    bandit.reward(decision.id, 1, idempotency_key="k")
    assert full_state(bandit) == before
    with pytest.raises(DuplicateReward):
        bandit.reward(decision.id, 1, idempotency_key="another")
    with pytest.raises(DuplicateReward):
        bandit.reward(decision.id, 1)


def test_keys_are_validated_and_their_number_is_limited() -> None:
    bandit = one_arm(ManualClock(), reward_aggregation="sum")
    decision = bandit.decide(CONTEXT)
    invalid: list[Any] = [1.5, True, ["a"], b"a"]
    for key in invalid:
        with pytest.raises(InvalidInput, match="idempotency_key"):
            bandit.reward(decision.id, 1, idempotency_key=key)
    with pytest.raises(InvalidInput, match="idempotency_key"):
        bandit.reward(decision.id, 1, idempotency_key=10**5000)
    for key in range(MAX_KEYS):
        bandit.reward(decision.id, 0, idempotency_key=key)
    before = full_state(bandit)
    with pytest.raises(InvalidReward, match="at most 1,000"):
        bandit.reward(decision.id, 0, idempotency_key="one more")
    assert full_state(bandit) == before
    bandit.reward(decision.id, 0, idempotency_key=5)
    bandit.reward(decision.id, 0)


# ---- lost rewards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["glcb", "glcb-paper", "ucb1", "linfullpost"])
def test_an_arm_whose_rewards_are_lost_does_not_get_all_decisions(policy: str) -> None:
    bandit, rng = Bandit(ARMS, policy=policy, seed=10_001), np.random.default_rng(10_001)
    decided = dict.fromkeys(ARMS, 0)
    for _ in range(500):
        decision = bandit.decide(visitor(rng))
        decided[str(decision.arm)] += 1
        if decision.arm != "news":
            bandit.reward(decision.id, float(rng.random() < (0.8 if decision.arm == "games" else 0.2)))
    assert bandit.reward_counts["news"] == 0
    assert 0 < decided["news"] < 250
    assert decided["games"] > decided["sports"]


# ---- arguments and saving ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"reward_timeout": -1},
        {"reward_timeout": math.inf},
        {"reward_timeout": "long"},
        {"reward_timeout": 5, "reward_aggregation": "mean"},
        {"reward_aggregation": "sum"},
        {"default_reward": 0},
        {"reward_timeout": 5, "default_reward": 0.5},
        {"reward_timeout": 5, "default_reward": "none"},
        {"clock": 5},
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        Bandit(ARMS, **arguments)


def test_reward_rules_are_part_of_the_repr() -> None:
    bandit = Bandit(ARMS, reward_timeout=5, default_reward=0, reward_aggregation="max", **FAST)
    assert "reward_timeout=5.0, default_reward=0.0, reward_aggregation='max', seed=0" in repr(bandit)


@pytest.mark.parametrize("reward_aggregation", ["first", "last", "sum", "max"])
def test_times_keys_and_aggregated_rewards_are_saved(reward_aggregation: Any, tmp_path: Path) -> None:
    clock = ManualClock()
    bandit = one_arm(clock, reward_aggregation=reward_aggregation, default_reward=1)
    decisions = []
    for step in range(6):
        decisions.append(bandit.decide(CONTEXT))
        bandit.reward(decisions[step // 2 * 2].id, step, idempotency_key=f"key {step // 2}")
        clock.now += 10
    bandit.save(tmp_path / "bandit")
    loaded = Bandit.load(tmp_path / "bandit", clock=clock)
    assert full_state(loaded) == full_state(bandit)
    assert loaded.get_params()["clock"] is clock
    for each in (bandit, loaded):
        each.reward(decisions[0].id, 9, idempotency_key="key 0")
        each.reward(decisions[5].id, 8, idempotency_key="key 5")
    for _ in range(3):
        clock.now += 21
        for each in (bandit, loaded):
            each.settle()
        assert full_state(loaded) == full_state(bandit)
    assert summary(loaded) == (6, 4, 2, 0)


def test_a_copy_can_be_given_the_clock() -> None:
    clock = ManualClock()
    bandit = one_arm(clock)
    decision = bandit.decide(CONTEXT)
    twin = copy.deepcopy(bandit).set_params(clock=clock)
    twin.reward(decision.id, 1)
    assert summary(twin) == (1, 1, 0, 0)
    assert summary(bandit) == (1, 0, 0, 1)
