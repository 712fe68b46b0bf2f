"""Arbitrary JSON and arbitrary sequences of calls: errors change nothing, all numbers stay finite."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from glcb import Bandit, GlcbError, InvalidContext
from tests.support.bandits import full_state

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
        before = full_state(bandit)
        try:
            decision = bandit.decide(json.loads(json.dumps(context)))
        except GlcbError:
            assert full_state(bandit) == before
            continue
        bandit.reward(decision.id, 1)
        assert np.isfinite(decision.values).all()
        schema = bandit.schema
        assert schema is not None
        width = width or schema.width
        assert schema.width == width
    for name, array in bandit._snapshot().arrays.items():
        assert np.isfinite(array).all(), name


@given(st.lists(contexts, min_size=1, max_size=15))
def test_encoded_contexts_are_in_the_unit_cube_and_reproducible(
    sequence: list[dict[str, Any]],
) -> None:
    bandit = Bandit(2, policy="uniform")
    bandit.decide(FIRST)
    encoder = bandit._core.encoder
    assert encoder is not None
    for context in sequence:
        try:
            x = encoder.encode(context).x
        except InvalidContext:
            continue
        assert x.shape == (encoder.width,)
        assert 0 <= x.min() <= x.max() <= 1
        assert np.array_equal(encoder.encode(context).x, x)
        bandit.decide(context)


class RandomCalls(RuleBasedStateMachine):
    """A bandit next to a model of it: pending decisions, rewards and arms."""

    pending = Bundle("pending")
    settled = Bundle("settled")

    def __init__(self) -> None:
        super().__init__()
        self.bandit = Bandit(["a", "b"], policy="linucb", max_pending=6, spare_slots=8)
        self.decided = self.rewarded = 0
        self.arms = ["a", "b"]

    @rule(target=pending, context=contexts, data=st.data())
    def decide(self, context: dict[str, Any], data: st.DataObject) -> Any:
        eligible = data.draw(st.none() | st.sets(st.sampled_from(self.arms), min_size=1))
        before = full_state(self.bandit)
        try:
            decision = self.bandit.decide(context, eligible=eligible)
        except GlcbError:
            assert full_state(self.bandit) == before
            return multiple()
        assert decision.arm in (eligible or self.arms)
        assert abs(sum(decision.probabilities.values()) - 1) < 1e-9
        self.decided += 1
        return decision

    @rule(target=settled, decision=consumes(pending), value=st.integers(0, 1))
    def reward(self, decision: Any, value: int) -> Any:
        before = full_state(self.bandit)
        try:
            self.bandit.reward(decision.id, value)
        except GlcbError:  # it was evicted, or its arm removed
            assert full_state(self.bandit) == before
        else:
            self.rewarded += 1
        return decision

    @rule(decision=settled | pending, value=anything)
    def reward_with_a_list(self, decision: Any, value: Any) -> None:
        before = full_state(self.bandit)
        try:
            self.bandit.reward(decision.id, [value])  # type: ignore[arg-type]
        except GlcbError:
            assert full_state(self.bandit) == before
        else:
            raise AssertionError("a list was accepted as a reward")

    @rule(decision=settled)
    def reward_again(self, decision: Any) -> None:
        before = full_state(self.bandit)
        try:
            self.bandit.reward(decision.id, 1)
        except GlcbError:
            assert full_state(self.bandit) == before
        else:
            raise AssertionError("a second reward was accepted")

    @rule(name=st.sampled_from("abcdef"), data=st.data())
    def add_arm(self, name: str, data: st.DataObject) -> None:
        like = data.draw(st.none() | st.sampled_from(self.arms))
        before = full_state(self.bandit)
        try:
            self.bandit.add_arm(name, like=like)
        except GlcbError:
            assert name in self.arms
            assert full_state(self.bandit) == before
        else:
            self.arms.append(name)

    @rule(name=st.sampled_from("abcdef"))
    def remove_arm(self, name: str) -> None:
        before = full_state(self.bandit)
        try:
            self.bandit.remove_arm(name)
        except GlcbError:
            assert name not in self.arms or self.arms == [name]
            assert full_state(self.bandit) == before
        else:
            self.arms.remove(name)

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.bandit.save(Path(folder) / "bandit")
            loaded = Bandit.load(Path(folder) / "bandit")
        assert full_state(loaded) == full_state(self.bandit)
        self.bandit = loaded

    @invariant()
    def counts_agree(self) -> None:
        counts = self.bandit.counts
        assert (counts["decisions"], counts["rewarded"]) == (self.decided, self.rewarded)
        assert 2 * counts["decisions"] == sum(counts.values())
        assert counts["pending"] <= 6
        assert self.bandit.arms == tuple(self.arms)

    @invariant()
    def all_numbers_are_finite(self) -> None:
        for name, array in self.bandit._snapshot().arrays.items():
            assert np.isfinite(array).all(), name


TestRandomCalls = RandomCalls.TestCase
TestRandomCalls.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
