"""Who watches is told of every reward that is learned, once and last."""

from pathlib import Path
from typing import Any

import pytest

from glcb import ClosedDecision, DuplicateReward
from tests.bandit.clocks import CONTEXT, Watch, counts, one_arm


@pytest.mark.parametrize("reward_aggregation", ["first", "max"])
def test_a_watcher_that_fails_does_not_make_a_reward_count_twice(reward_aggregation: Any) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("nobody is listening")

    watch = Watch()
    bandit = one_arm(watch, reward_aggregation=reward_aggregation)
    bandit.on_reward(fail)
    decision = bandit.decide(CONTEXT)
    if reward_aggregation == "first":
        with pytest.raises(RuntimeError, match="nobody is listening"):
            bandit.reward(decision.id, 4)
    else:
        bandit.reward(decision.id, 4)
        watch.now += 61
        with pytest.raises(RuntimeError, match="nobody is listening"):
            bandit.decide(CONTEXT)
    assert counts(bandit) == (1, 1, 0, 0)
    assert bandit.reward_counts == {"only": 1}
    with pytest.raises(DuplicateReward if reward_aggregation == "first" else ClosedDecision):
        bandit.reward(decision.id, 4)
    bandit.settle()
    assert bandit.reward_counts == {"only": 1}


def test_a_row_of_a_log_is_counted_before_the_watcher_is_told(tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("nobody is listening")

    (tmp_path / "log.jsonl").write_text('{"age": 3, "arm": "only", "reward": 1}\n')
    bandit = one_arm(Watch())
    bandit.on_reward(fail)
    with pytest.raises(RuntimeError, match="nobody is listening"):
        bandit.learn_from(tmp_path / "log.jsonl")
    assert counts(bandit) == (1, 1, 0, 0)
    assert bandit.reward_counts == {"only": 1}


def test_the_watcher_hears_of_every_reward_that_is_learned() -> None:
    watch, heard = Watch(), []
    bandit = one_arm(watch, reward_aggregation="sum", default_reward=9)
    bandit.on_reward(lambda *told: heard.append((*told, bandit.counts["pending"])))
    one, other, last = (bandit.decide(CONTEXT) for _ in range(3))
    bandit.reward(other.id, 2)
    bandit.reward(other.id, 3)
    watch.now += 61
    bandit.settle()
    assert heard == [(one.id, "only", 9, 2), (other.id, "only", 5, 1), (last.id, "only", 9, 0)]
    bandit.on_reward(None)
    bandit.decide(CONTEXT)
    watch.now += 61
    bandit.settle()
    assert len(heard) == 3
