"""Whatever JSON brings, in whatever order: nothing is lost, nothing is poisoned, errors change nothing."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from glcb import Bandit, GlcbError
from tests.bandit.anybody import everything

numbers = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 0.5, 1e308, 10**400, -0.0])
scalars = st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from(["a", "b", "c"])
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
"""Any JSON value."""
names = st.sampled_from(["age", "country", "member", "x", "y"]) | st.text(max_size=4)
contexts = st.dictionaries(names, scalars | anything, max_size=6)
FIRST = {"age": 30, "country": "a", "member": True}


@given(anything | contexts, st.lists(anything | contexts, max_size=10))
def test_any_json_value_is_either_a_context_or_refused(first: Any, others: list[Any]) -> None:
    bandit = Bandit(3, policy="linucb", spare_slots=6)
    width = None
    for context in [first, *others]:
        before = everything(bandit)
        try:
            decision = bandit.decide(json.loads(json.dumps(context)))
        except GlcbError:
            assert everything(bandit) == before
            continue
        bandit.reward(decision.id, 1)
        assert np.isfinite(decision.values).all()
        schema = bandit.schema
        assert schema is not None
        width = width or schema.width
        assert schema.width == width
    for name, array in bandit.__getstate__().arrays.items():
        assert np.isfinite(array).all(), name


@given(st.lists(contexts, min_size=1, max_size=15))
def test_encoded_contexts_lie_within_the_unit_cube_and_say_the_same_again(
    given_: list[dict[str, Any]],
) -> None:
    bandit = Bandit(2, policy="uniform")
    bandit.decide(FIRST)
    encoder = bandit._encoder
    assert encoder is not None
    for context in given_:
        x = encoder.read(context).x
        assert x.shape == (encoder.width,)
        assert 0 <= x.min() <= x.max() <= 1
        assert np.array_equal(encoder.read(context).x, x)
        bandit.decide(context)


class Life(RuleBasedStateMachine):
    """A bandit and its ledger: who waits, who was rewarded, which arms there are."""

    waiting = Bundle("waiting")
    settled = Bundle("settled")

    def __init__(self) -> None:
        super().__init__()
        self.bandit = Bandit(["a", "b"], policy="linucb", max_pending=6, spare_slots=8)
        self.issued = self.rewarded = 0
        self.arms = ["a", "b"]

    @rule(target=waiting, context=contexts, data=st.data())
    def decide(self, context: dict[str, Any], data: st.DataObject) -> Any:
        eligible = data.draw(st.none() | st.sets(st.sampled_from(self.arms), min_size=1))
        before = everything(self.bandit)
        try:
            decision = self.bandit.decide(context, eligible=eligible)
        except GlcbError:
            assert everything(self.bandit) == before
            return multiple()
        assert decision.arm in (eligible or self.arms)
        assert abs(sum(decision.probabilities.values()) - 1) < 1e-9
        self.issued += 1
        return decision

    @rule(target=settled, decision=consumes(waiting), value=st.integers(0, 1))
    def reward(self, decision: Any, value: int) -> Any:
        before = everything(self.bandit)
        try:
            self.bandit.reward(decision.id, value)
        except GlcbError:  # it expired, or its arm is gone
            assert everything(self.bandit) == before
        else:
            self.rewarded += 1
        return decision

    @rule(decision=settled | waiting, value=anything)
    def reward_nonsense(self, decision: Any, value: Any) -> None:
        before = everything(self.bandit)
        try:
            self.bandit.reward(decision.id, [value])  # type: ignore[arg-type]
        except GlcbError:
            assert everything(self.bandit) == before
        else:
            raise AssertionError("a list was taken for a reward")

    @rule(decision=settled)
    def reward_again(self, decision: Any) -> None:
        before = everything(self.bandit)
        try:
            self.bandit.reward(decision.id, 1)
        except GlcbError:
            assert everything(self.bandit) == before
        else:
            raise AssertionError("a second reward was taken")

    @rule(name=st.sampled_from("abcdef"), data=st.data())
    def add_arm(self, name: str, data: st.DataObject) -> None:
        like = data.draw(st.none() | st.sampled_from(self.arms))
        before = everything(self.bandit)
        try:
            self.bandit.add_arm(name, like=like)
        except GlcbError:
            assert name in self.arms
            assert everything(self.bandit) == before
        else:
            self.arms.append(name)

    @rule(name=st.sampled_from("abcdef"))
    def remove_arm(self, name: str) -> None:
        before = everything(self.bandit)
        try:
            self.bandit.remove_arm(name)
        except GlcbError:
            assert name not in self.arms or self.arms == [name]
            assert everything(self.bandit) == before
        else:
            self.arms.remove(name)

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.bandit.save(Path(folder) / "bandit")
            loaded = Bandit.load(Path(folder) / "bandit")
        assert everything(loaded) == everything(self.bandit)
        self.bandit = loaded

    @invariant()
    def books_balance(self) -> None:
        counts = self.bandit.counts
        assert (counts["decisions"], counts["rewarded"]) == (self.issued, self.rewarded)
        assert 2 * counts["decisions"] == sum(counts.values())
        assert counts["pending"] <= 6
        assert self.bandit.arms == tuple(self.arms)

    @invariant()
    def nothing_is_poisoned(self) -> None:
        for name, array in self.bandit.__getstate__().arrays.items():
            assert np.isfinite(array).all(), name


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
