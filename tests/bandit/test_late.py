"""Rewards that come late, several times, or never."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import (
    Bandit,
    ClosedDecision,
    DuplicateReward,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
)
from glcb.bandit.waiting import MOST_KEYS
from tests.bandit.anybody import ARMS, FAST, everything, visitor
from tests.bandit.clocks import CONTEXT, Watch, counts, one_arm


def means(bandit: Bandit) -> list[float]:
    """Return what ``bandit``, of UCB1, has learned: the mean reward of each arm."""
    found: list[float] = bandit.__getstate__().arrays["policy.means"].tolist()
    return found


# ---- time runs out ----------------------------------------------------------------------------------


def test_without_patience_nobody_looks_at_the_clock() -> None:
    def broken() -> float:
        raise AssertionError

    bandit = Bandit(ARMS, clock=broken, **FAST)
    bandit.reward(bandit.decide(CONTEXT).id, 1)
    bandit.settle()


def test_time_runs_out_and_nothing_is_learned() -> None:
    watch = Watch()
    bandit = Bandit(ARMS, reward_timeout=60, clock=watch, **FAST)
    early, late = bandit.decide(CONTEXT), bandit.decide(CONTEXT)
    watch.now += 60
    bandit.reward(early.id, 1)
    watch.now += 0.5
    before = everything(bandit)
    with pytest.raises(ClosedDecision, match="its 60 seconds are over"):
        bandit.reward(late.id, 1)
    assert everything(bandit) == before
    bandit.settle()
    assert counts(bandit) == (2, 1, 1, 0)
    assert sum(bandit.reward_counts.values()) == 1
    with pytest.raises(ClosedDecision, match="its 60 seconds are over"):
        bandit.reward(late.id, 1)


def test_who_waits_is_who_could_be_rewarded() -> None:
    watch = Watch()
    bandit = one_arm(watch, max_pending=2)
    first, second, third = (bandit.decide(CONTEXT).id for _ in range(3))
    assert [bandit.is_pending(name) for name in (first, second, third)] == [False, True, True]
    bandit.reward(second, 1)
    assert not bandit.is_pending(second)
    watch.now += 60
    assert bandit.is_pending(third)
    watch.now += 1
    before = everything(bandit)
    assert not bandit.is_pending(third)
    nonsense: list[Any] = ["", "1-00000000", None, 5, [third], {}]
    assert not any(map(bandit.is_pending, nonsense))
    assert everything(bandit) == before


def test_time_runs_out_and_the_default_is_learned() -> None:
    watch = Watch()
    bandit = one_arm(watch, default_reward=2)
    for _ in range(3):
        bandit.decide(CONTEXT)
    watch.now += 61
    rewarded = bandit.decide(CONTEXT)
    assert counts(bandit) == (4, 0, 3, 1)
    assert bandit.reward_counts == {"only": 3}
    assert means(bandit) == [2]
    bandit.reward(rewarded.id, 6)
    assert counts(bandit) == (4, 1, 3, 0)
    assert means(bandit) == [3]


def test_a_clock_that_goes_back_only_delays() -> None:
    watch = Watch()
    bandit = one_arm(watch)
    first = bandit.decide(CONTEXT)
    watch.now -= 500
    second = bandit.decide(CONTEXT)
    watch.now += 30
    bandit.reward(second.id, 1)
    bandit.reward(first.id, 1)
    assert counts(bandit) == (2, 2, 0, 0)


@pytest.mark.parametrize("told", [math.nan, None, "noon"])
def test_a_clock_that_tells_no_time_is_refused_and_changes_nothing(told: Any) -> None:
    watch = Watch()
    bandit = one_arm(watch)
    decision = bandit.decide(CONTEXT)
    before = everything(bandit)
    watch.now = told
    with pytest.raises(InvalidSettings, match="clock must return the time"):
        bandit.decide(CONTEXT)
    with pytest.raises(InvalidSettings, match="clock must return the time"):
        bandit.reward(decision.id, 1)
    assert everything(bandit) == before


# ---- several rewards --------------------------------------------------------------------------------


@pytest.mark.parametrize(("reward_aggregation", "learned"), [("last", 1), ("max", 4), ("sum", 7)])
def test_several_rewards_are_learned_as_one_when_the_time_is_over(
    reward_aggregation: Any, learned: float
) -> None:
    watch = Watch()
    bandit = one_arm(watch, reward_aggregation=reward_aggregation, default_reward=9)
    decision = bandit.decide(CONTEXT)
    for value in (2, 4, 1):
        bandit.reward(decision.id, value)
        watch.now += 20
    assert counts(bandit) == (1, 0, 0, 1)
    assert bandit.reward_counts == {"only": 0}
    watch.now += 1
    with pytest.raises(ClosedDecision, match="its time is over, and the rewards that came in time count"):
        bandit.reward(decision.id, 3)
    bandit.settle()
    assert counts(bandit) == (1, 1, 0, 0)
    assert means(bandit) == [learned]
    with pytest.raises(ClosedDecision, match="its time is over, and the rewards that came in time count"):
        bandit.reward(decision.id, 3)


def test_a_sum_beyond_the_range_counts_as_its_end() -> None:
    watch = Watch()
    bandit = one_arm(watch, reward_aggregation="sum")
    decision = bandit.decide(CONTEXT)
    for value in (8, 9):
        bandit.reward(decision.id, value)
    with pytest.raises(InvalidReward):
        bandit.reward(decision.id, 11)
    watch.now += 61
    bandit.settle()
    assert means(bandit) == [10]


def test_the_first_is_learned_at_once() -> None:
    bandit = one_arm(Watch())
    decision = bandit.decide(CONTEXT)
    bandit.reward(decision.id, 5)
    assert means(bandit) == [5]
    with pytest.raises(DuplicateReward):
        bandit.reward(decision.id, 6)


def test_rewards_so_far_are_learned_when_others_need_the_room() -> None:
    bandit = one_arm(Watch(), reward_aggregation="max", max_pending=2, default_reward=0)
    first = bandit.decide(CONTEXT)
    bandit.reward(first.id, 5)
    bandit.decide(CONTEXT)
    bandit.decide(CONTEXT)
    assert counts(bandit) == (3, 1, 0, 2)
    assert means(bandit) == [5]
    bandit.decide(CONTEXT)  # the one that goes had no reward; whether one would have come, nobody knows
    assert counts(bandit) == (4, 1, 1, 2)
    assert bandit.reward_counts == {"only": 1}


# ---- keys -------------------------------------------------------------------------------------------


def test_the_same_key_counts_once_also_when_all_is_over() -> None:
    watch = Watch()
    bandit = one_arm(watch, reward_aggregation="sum")
    decision, other = bandit.decide(CONTEXT), bandit.decide(CONTEXT)
    for value, key in ((2, "a"), (2, "a"), (3, 7), (5, "7"), (9, 7)):
        bandit.reward(decision.id, value, idempotency_key=key)
    bandit.reward(other.id, 4, idempotency_key="a")
    watch.now += 61
    bandit.settle()
    assert means(bandit) == [7]  # of 2 + 3 + 5 and 4
    before = everything(bandit)
    bandit.reward(decision.id, 2, idempotency_key="a")
    assert everything(bandit) == before
    with pytest.raises(ClosedDecision):
        bandit.reward(decision.id, 2, idempotency_key="b")


def test_a_first_reward_sent_twice_is_no_duplicate() -> None:
    bandit = Bandit(ARMS, **FAST)
    decision = bandit.decide(CONTEXT)
    bandit.reward(decision.id, 1, idempotency_key="k")
    before = everything(bandit)
    bandit.reward(decision.id, 1, idempotency_key="k")
    assert everything(bandit) == before
    with pytest.raises(DuplicateReward):
        bandit.reward(decision.id, 1, idempotency_key="another")
    with pytest.raises(DuplicateReward):
        bandit.reward(decision.id, 1)


def test_keys_are_checked_and_bounded() -> None:
    bandit = one_arm(Watch(), reward_aggregation="sum")
    decision = bandit.decide(CONTEXT)
    wrong: list[Any] = [1.5, True, ["a"], b"a"]
    for key in wrong:
        with pytest.raises(InvalidInput, match="key of a reward"):
            bandit.reward(decision.id, 1, idempotency_key=key)
    with pytest.raises(InvalidInput, match="key of a reward"):
        bandit.reward(decision.id, 1, idempotency_key=10**5000)
    for key in range(MOST_KEYS):
        bandit.reward(decision.id, 0, idempotency_key=key)
    before = everything(bandit)
    with pytest.raises(InvalidReward, match="at most 1,000"):
        bandit.reward(decision.id, 0, idempotency_key="one more")
    assert everything(bandit) == before
    bandit.reward(decision.id, 0, idempotency_key=5)
    bandit.reward(decision.id, 0)


# ---- rewards that get lost --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["glcb", "glcb-paper", "ucb1", "linfullpost"])
def test_an_arm_whose_rewards_get_lost_does_not_take_all_the_traffic(policy: str) -> None:
    bandit, rng = Bandit(ARMS, policy=policy, seed=10_001), np.random.default_rng(10_001)
    tried = dict.fromkeys(ARMS, 0)
    for _ in range(500):
        decision = bandit.decide(visitor(rng))
        tried[str(decision.arm)] += 1
        if decision.arm != "news":
            bandit.reward(decision.id, float(rng.random() < (0.8 if decision.arm == "games" else 0.2)))
    assert bandit.reward_counts["news"] == 0
    assert 0 < tried["news"] < 250
    assert tried["games"] > tried["sports"]


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
def test_nonsense_is_refused_at_construction(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        Bandit(ARMS, **arguments)


def test_it_shows_how_it_waits() -> None:
    bandit = Bandit(ARMS, reward_timeout=5, default_reward=0, reward_aggregation="max", **FAST)
    assert "reward_timeout=5.0, default_reward=0.0, reward_aggregation='max', seed=0" in repr(bandit)


@pytest.mark.parametrize("reward_aggregation", ["first", "last", "sum", "max"])
def test_saving_covers_times_keys_and_rewards_so_far(reward_aggregation: Any, tmp_path: Path) -> None:
    watch = Watch()
    bandit = one_arm(watch, reward_aggregation=reward_aggregation, default_reward=1)
    decisions = []
    for step in range(6):
        decisions.append(bandit.decide(CONTEXT))
        bandit.reward(decisions[step // 2 * 2].id, step, idempotency_key=f"key {step // 2}")
        watch.now += 10
    bandit.save(tmp_path / "bandit")
    loaded = Bandit.load(tmp_path / "bandit", clock=watch)
    assert everything(loaded) == everything(bandit)
    assert loaded.get_params()["clock"] is watch
    for each in (bandit, loaded):
        each.reward(decisions[0].id, 9, idempotency_key="key 0")
        each.reward(decisions[5].id, 8, idempotency_key="key 5")
    for _ in range(3):
        watch.now += 21
        for each in (bandit, loaded):
            each.settle()
        assert everything(loaded) == everything(bandit)
    assert counts(loaded) == (6, 4, 2, 0)


def test_a_copy_is_given_its_clock_anew() -> None:
    watch = Watch()
    bandit = one_arm(watch)
    decision = bandit.decide(CONTEXT)
    twin = copy.deepcopy(bandit).set_params(clock=watch)
    twin.reward(decision.id, 1)
    assert counts(twin) == (1, 1, 0, 0)
    assert counts(bandit) == (1, 0, 0, 1)
