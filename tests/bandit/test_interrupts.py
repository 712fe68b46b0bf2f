"""An interrupt such as Ctrl-C between any two steps leaves a bandit that can be saved, loaded and used."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import glcb
from glcb import Bandit, DuplicateReward, _model_file
from tests.bandit.helpers import ARMS, FAST, run
from tests.bandit.manual_clock import ManualClock

CONTEXT = {"age": 31, "spent": 5.0, "country": "FR", "member": True}
NEW_VALUES = {"age": 31, "spent": 5.0, "country": "NZ", "member": None, "weather": 3.5, "campaign": "c99"}
PACKAGE = Path(glcb.__file__).parent
CHANGES_STATE = {
    str(PACKAGE / path)
    for path in ("bandit/_core.py", "bandit/pending.py", "bandit/labels.py", "policies/base.py")
}

Action = Callable[[Bandit], object]


class Interrupt:
    """Raises KeyboardInterrupt before the instruction with a given number, of those that change the state."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = 0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in CHANGES_STATE and frame.f_code.co_name != "commit":
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.passed += 1
            if self.passed == self.at:
                raise KeyboardInterrupt
        return self

    def during(self, action: Action, bandit: Bandit) -> bool:
        """Return whether the action was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            action(bandit)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False


def reward_oldest(bandit: Bandit) -> None:
    oldest = next(iter(bandit._core.pending))
    bandit.reward(oldest.id, 1, idempotency_key="k")


def after_a_day(bandit: Bandit) -> None:
    clock = bandit._core.config.clock
    assert isinstance(clock, ManualClock)
    clock.now += 86_400
    bandit.settle()


LATE: dict[str, Any] = {"reward_timeout": 60, "max_pending": 20}


@pytest.mark.parametrize(
    ("settings", "action"),
    [
        ({}, lambda bandit: bandit.decide(CONTEXT)),
        ({}, lambda bandit: bandit.decide(NEW_VALUES)),
        ({"max_pending": 5}, lambda bandit: bandit.decide(CONTEXT, id="own")),
        ({**LATE, "default_reward": 0}, lambda bandit: bandit.decide(CONTEXT)),
        ({"max_pending": 5}, reward_oldest),
        ({**LATE, "default_reward": 0}, reward_oldest),
        ({**LATE, "reward_aggregation": "sum"}, reward_oldest),
        ({**LATE, "max_pending": 2, "default_reward": 0}, after_a_day),
        ({**LATE, "max_pending": 2, "reward_aggregation": "max"}, after_a_day),
        ({}, lambda bandit: bandit.add_arm("weather", like="news")),
        ({**LATE, "default_reward": 0}, lambda bandit: bandit.remove_arm("news")),
    ],
    ids=[
        *("decide", "new values", "evict", "decide and label", "reward", "label later", "aggregate"),
        *("settle with default", "settle aggregates", "add arm", "remove arm"),
    ],
)
def test_a_bandit_that_is_interrupted_at_any_instruction_can_be_loaded(
    settings: dict[str, Any], action: Action
) -> None:
    snapshot = run(Bandit(ARMS, clock=ManualClock(), **FAST, **settings), 30, rewarded=0.4).snapshot()
    counter = Interrupt(0)
    assert not counter.during(action, restored(snapshot))
    for at in range(1, counter.passed + 1):
        bandit = restored(snapshot)
        assert Interrupt(at).during(action, bandit)
        assert min(bandit.counts.values()) >= 0, (at, bandit.counts)
        content = b"".join(_model_file.chunks(bandit.snapshot()))
        loaded = Bandit.from_snapshot(_model_file.parse(content, "the file"))
        assert loaded.counts == bandit.counts, at
        bandit.decide(CONTEXT)
        loaded.decide(CONTEXT)


def test_a_reward_is_not_learned_twice_if_it_is_sent_again_after_an_interrupt() -> None:
    snapshot = run(Bandit(ARMS, **FAST), 30, rewarded=0.4).snapshot()
    learned = sum(restored(snapshot).reward_counts.values())
    counter = Interrupt(0)
    assert not counter.during(reward_oldest, restored(snapshot))
    for at in range(1, counter.passed + 1):
        bandit = restored(snapshot)
        oldest = next(iter(bandit._core.pending)).id
        assert Interrupt(at).during(reward_oldest, bandit)
        with contextlib.suppress(DuplicateReward):
            bandit.reward(oldest, 1, idempotency_key="k")
        assert sum(bandit.reward_counts.values()) <= learned + 1, at


def restored(snapshot: _model_file.Snapshot) -> Bandit:
    """Return a bandit in the state of a snapshot, with a clock of its own."""
    return Bandit.from_snapshot(snapshot).set_params(clock=ManualClock())
