"""The callback for learned rewards is called once per reward, as the last step."""

from pathlib import Path
from typing import Any

import pytest

from glcb import ClosedDecision, DuplicateReward
from tests.support.manual_clock import CONTEXT, ManualClock, one_arm, summary


@pytest.mark.parametrize("reward_aggregation", ["first", "max"])
def test_a_failing_callback_does_not_make_a_reward_count_twice(reward_aggregation: Any) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("callback failed")

    clock = ManualClock()
    bandit = one_arm(clock, reward_aggregation=reward_aggregation)
    bandit.on_reward(fail)
    decision = bandit.decide(CONTEXT)
    if reward_aggregation == "first":
        with pytest.raises(RuntimeError, match="callback failed"):
            bandit.reward(decision.id, 4)
    else:
        bandit.reward(decision.id, 4)
        clock.now += 61
        with pytest.raises(RuntimeError, match="callback failed"):
            bandit.decide(CONTEXT)
    assert summary(bandit) == (1, 1, 0, 0)
    assert bandit.reward_counts == {"only": 1}
    with pytest.raises(DuplicateReward if reward_aggregation == "first" else ClosedDecision):
        bandit.reward(decision.id, 4)
    bandit.settle()
    assert bandit.reward_counts == {"only": 1}


def test_a_replayed_row_is_counted_before_the_callback(tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("callback failed")

    (tmp_path / "log.jsonl").write_text('{"age": 3, "arm": "only", "reward": 1}\n')
    bandit = one_arm(ManualClock())
    bandit.on_reward(fail)
    with pytest.raises(RuntimeError, match="callback failed"):
        bandit.learn_from(tmp_path / "log.jsonl")
    assert summary(bandit) == (1, 1, 0, 0)
    assert bandit.reward_counts == {"only": 1}


def test_the_callback_is_called_for_every_learned_reward() -> None:
    clock, calls = ManualClock(), []
    bandit = one_arm(clock, reward_aggregation="sum", default_reward=9)
    bandit.on_reward(lambda *call: calls.append((*call, bandit.counts["pending"])))
    one, other, last = (bandit.decide(CONTEXT) for _ in range(3))
    bandit.reward(other.id, 2)
    bandit.reward(other.id, 3)
    clock.now += 61
    bandit.settle()
    assert calls == [(one.id, "only", 9, 2), (other.id, "only", 5, 1), (last.id, "only", 9, 0)]
    bandit.on_reward(None)
    bandit.decide(CONTEXT)
    clock.now += 61
    bandit.settle()
    assert len(calls) == 3
