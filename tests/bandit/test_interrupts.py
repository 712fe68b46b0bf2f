"""A bandit whose change was interrupted says so, and is used again only after somebody accepts that."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glcb import Bandit, InvalidContext, NotSupported
from glcb.bandit import recorded
from tests.support.bandits import ARMS, FAST, run

CONTEXT = {"age": 31, "spent": 5.0, "country": "FR", "member": True}


def interrupt(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


@pytest.fixture
def bandit() -> Bandit:
    return run(Bandit(ARMS, **FAST), 30, rewarded=0.4)


def interrupt_reward(bandit: Bandit, monkeypatch: pytest.MonkeyPatch) -> str:
    """Interrupt a reward after it was learned, before its decision is settled; return the decision."""
    decision = bandit.decide(CONTEXT).id
    with monkeypatch.context() as patch:
        patch.setattr(bandit._core.pending, "add_reward", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bandit.reward(decision, 1)
    return decision


USES: list[Callable[[Bandit, Path], object]] = [
    lambda bandit, _: bandit.decide(CONTEXT),
    lambda bandit, _: bandit.rank(CONTEXT, k=2),
    lambda bandit, _: bandit.decide_many([CONTEXT]),
    lambda bandit, _: bandit.reward("1-00000000", 1),
    lambda bandit, _: bandit.explain(CONTEXT),
    lambda bandit, _: bandit.counts,
    lambda bandit, _: bandit.set_params(exploration=0.1),
    lambda bandit, _: bandit.add_arm("new"),
    lambda bandit, path: bandit.save(path / "model"),
    lambda bandit, path: bandit.log_to(path / "log.jsonl"),
    lambda bandit, _: recorded.defer(bandit, "1-00000000", 1),
]


@pytest.mark.parametrize("use", USES)
def test_the_next_use_after_an_interrupted_change_raises_an_error(
    bandit: Bandit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, use: Callable[[Bandit, Path], object]
) -> None:
    interrupt_reward(bandit, monkeypatch)
    for _ in range(2):
        with pytest.raises(NotSupported, match=r"interrupted.*load a saved copy, or accept"):
            use(bandit, tmp_path)
    assert not list(tmp_path.iterdir())
    assert "Bandit(" in repr(bandit)


@pytest.mark.parametrize("accept", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_accepts_the_state(
    bandit: Bandit, monkeypatch: pytest.MonkeyPatch, accept: Callable[[Bandit], Bandit]
) -> None:
    decision = interrupt_reward(bandit, monkeypatch)
    accepted = accept(bandit)
    assert accepted.reward(decision, 1)
    accepted.decide(CONTEXT)


@pytest.mark.parametrize("step", ["next_id", "add"])
def test_an_interrupted_decision_marks_the_bandit(
    bandit: Bandit, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bandit._core.pending, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            bandit.decide(CONTEXT)
    with pytest.raises(NotSupported):
        bandit.decide(CONTEXT)
    copy.copy(bandit).decide(CONTEXT)


def test_an_interrupted_replay_marks_the_bandit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arm,reward,age\nnews,1,31\n")
    bandit = Bandit(ARMS, **FAST)
    monkeypatch.setattr(bandit._core, "count_decision", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bandit.learn_from(log)
    with pytest.raises(NotSupported):
        bandit.decide(CONTEXT)


def test_errors_and_interrupted_readings_do_not_mark_a_bandit(
    bandit: Bandit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidContext):
        bandit.decide("no context")
    with monkeypatch.context() as patch:
        patch.setattr(bandit._core, "prepare", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bandit.explain(CONTEXT)
    bandit.decide(CONTEXT)
