"""Invalid input is refused with a reason and changes nothing."""

import math
from typing import Any

import numpy as np
import pytest

from glcb import (
    Bandit,
    InvalidContext,
    InvalidReward,
    InvalidSettings,
    UnknownArm,
)
from tests.support.bandits import ARMS, FAST, full_state, run

CONTEXT = {"country": "FR", "age": 31, "hour": 14}


def test_invalid_contexts_and_arms_change_nothing() -> None:
    for bandit in (Bandit(ARMS, **FAST), run(Bandit(ARMS, **FAST), 30)):
        before = full_state(bandit)
        contexts: list[Any] = [None, 5, "text", [[1]], {1.5: 2}, {(1,): 1}]
        for context in contexts:
            with pytest.raises(InvalidContext):
                bandit.decide(context)
        invalid: list[Any] = [[], ["purple"], "news", 5, [True]]
        for eligible in invalid:
            with pytest.raises(UnknownArm):
                bandit.decide(CONTEXT, eligible=eligible)
        with pytest.raises(InvalidSettings, match="already"):
            bandit.add_arm("news")
        with pytest.raises(InvalidSettings, match="valid Unicode"):
            bandit.add_arm("Stra\udcdfe")
        with pytest.raises(UnknownArm):
            bandit.add_arm("weather", like="purple")
        with pytest.raises(UnknownArm):
            bandit.remove_arm("purple")
        assert full_state(bandit) == before
        assert bandit.arms == ARMS


def test_a_failing_policy_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    bandit = run(Bandit(ARMS, **FAST), 30)
    pending = bandit.decide(CONTEXT)
    before = full_state(bandit)
    with monkeypatch.context() as patch:
        patch.setattr("glcb.policies.linear.lin_ucb.LinUCB._estimate", fail)
        with pytest.raises(MemoryError):
            bandit.decide({"brand": "new", "age": None})
        patch.setattr("glcb.policies.linear.base.LinearPolicy._learn", fail)
        with pytest.raises(MemoryError):
            bandit.reward(pending.id, 1)
    assert full_state(bandit) == before
    bandit.reward(pending.id, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"arms": []},
        {"arms": ["a", "a"]},
        {"arms": ["a", "Stra\udcdfe"]},
        {"policy": "weather"},
        {"policy": None},
        {"rewards": (1, 0)},
        {"exploration": -0.1},
        {"exploration": 0.6},
        {"exploration": math.nan},
        {"exploration": "high"},
        {"exploration_mode": "wide"},
        {"schema": {"age": "integer"}},
        {"schema": ["age"]},
        {"schema": {"\ud800": "number"}},
        {"spare_slots": -1},
        {"spare_slots": 1.5},
        {"max_pending": 0},
        {"max_pending": None},
        {"seed": -1},
        {"policy_settings": {"weather": 1}},
        {"policy_settings": {"alpha": ...}},
        {"policy_settings": {1: 2}},
        {"policy_settings": 5},
        {"policy": "linucb", "policy_settings": {"alpha": -1}},
        {"policy": "linucb", "policy_settings": {"weather": 1}},
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        Bandit(**{"arms": ARMS, **arguments})


@pytest.mark.parametrize("rewards", [(0, 1e101), (0, 1e-101), (-1e200, 0), (1, 1)])
def test_an_invalid_range_of_rewards_names_the_limits(rewards: tuple[float, float]) -> None:
    with pytest.raises(InvalidSettings, match=r"at least 1e-100 apart and within ±1e\+100"):
        Bandit(ARMS, rewards=rewards)


def test_very_long_integers_are_refused() -> None:
    bandit = Bandit(ARMS, **FAST)
    with pytest.raises(InvalidReward, match="0 or 1, got a value too long to show"):
        bandit.reward(bandit.decide(CONTEXT).id, 10**5000)
    for arguments in ({"seed": 10**5000}, {"exploration": 10**5000}, {"rewards": (0, 10**5000)}):
        with pytest.raises(InvalidSettings, match="too long to show"):
            Bandit(ARMS, **arguments)


def test_policy_settings_are_passed_to_the_policy() -> None:
    bandit = Bandit(ARMS, policy="linucb", policy_settings={"alpha": 0.5, "ridge": np.float64(2.0)})
    bandit.decide(CONTEXT)
    assert "alpha=0.5" in repr(bandit._core.policy)
    assert "ridge=2.0" in repr(bandit._core.policy)
