"""Delayed, repeated and lost rewards, saves and loads: the bandit agrees with a simple model of it.

Replaying the log gives the same state.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from glcb import Bandit, ClosedDecision, DuplicateReward, Policy, UnknownDecision
from tests.bandit.helpers import full_state
from tests.bandit.manual_clock import ManualClock

ARMS = ("a", "b", "c")
REWARD_TIMEOUT, MAX_PENDING = 10.0, 4
SMALL: dict[str, dict[str, Any]] = {"glcb": {"layers": [4, 2], "hyperplanes": 2}}
AGGREGATES: dict[str, Any] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "max": max,
    "sum": lambda values: min(max(sum(values), -1.0), 3.0),
}
contexts = st.fixed_dictionaries({"age": st.integers(0, 100), "country": st.sampled_from(["FR", "DE"])})


class Entry:
    """A decision in the model."""

    def __init__(self, x: np.ndarray, arm: Any, decided_at: float) -> None:
        self.x, self.arm, self.decided_at = x, arm, decided_at
        self.values: list[float] = []
        self.keys: set[str] = set()


class DelayedRewards(RuleBasedStateMachine):
    """A bandit next to a model of its decisions, and a policy that learns what the model says."""

    decisions = Bundle("decisions")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.pending: dict[str, Entry] = {}
        self.settled: dict[str, Entry] = {}
        self.decided = self.rewarded = self.closed = 0
        self.policy: Policy | None = None
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "log.jsonl"

    def teardown(self) -> None:
        if self.policy is not None:
            self.bandit.log_to(None)
            reader = Bandit(**{**self.bandit.get_params(), "clock": self.clock})
            assert not reader.learn_from(self.log).refused
            self.check_policy(reader)
        self.folder.cleanup()

    @initialize(
        policy=st.sampled_from(["glcb", "linucb", "ucb1", "linfullpost"]),
        reward_aggregation=st.sampled_from(list(AGGREGATES)),
        default=st.none() | st.just(-0.5),
    )
    def begin(self, policy: str, reward_aggregation: Any, default: float | None) -> None:
        self.reward_aggregation, self.default = reward_aggregation, default
        self.bandit = Bandit(
            ARMS,
            policy=policy,
            rewards=(-1.0, 3.0),
            spare_slots=2,
            max_pending=MAX_PENDING,
            reward_timeout=REWARD_TIMEOUT,
            default_reward=default,
            reward_aggregation=reward_aggregation,
            clock=self.clock,
            policy_settings=SMALL.get(policy),
        )
        self.bandit.log_to(self.log)

    @rule(target=decisions, context=contexts)
    def decide(self, context: dict[str, Any]) -> Any:
        self.settle_timed_out()
        if len(self.pending) == MAX_PENDING:
            self.finish(next(iter(self.pending)), evicted=True)
        decision = self.bandit.decide(context)
        x = self.bandit._core.pending.find(decision.id).x.copy()
        if self.policy is None:
            self.policy = self.bandit._core.config.make_policy(ARMS, x.size)
        self.policy.count_decision(x, decision.arm)
        self.pending[decision.id] = Entry(x, decision.arm, self.clock.now)
        self.decided += 1
        return decision.id

    @rule(name=decisions, value=st.floats(-1, 3, width=32), key=st.none() | st.sampled_from("kl"))
    def reward(self, name: str, value: float, key: str | None) -> None:
        entry = self.pending.get(name)
        known = key is not None and key in (entry or self.settled[name]).keys
        over = entry is None or self.clock.now - entry.decided_at > REWARD_TIMEOUT
        before = full_state(self.bandit)
        try:
            self.bandit.reward(name, value, idempotency_key=key)
        except (ClosedDecision, DuplicateReward):
            assert over
            assert not known
            assert full_state(self.bandit) == before
            return
        except UnknownDecision:  # too many others have been settled since
            assert len(self.settled) > MAX_PENDING
            assert name in self.settled
            assert full_state(self.bandit) == before
            return
        if known:
            assert full_state(self.bandit) == before
            return
        assert entry is not None
        assert not over
        self.settle_timed_out()
        entry.values.append(value)
        if key is not None:
            entry.keys.add(key)
        if self.reward_aggregation == "first":
            self.finish(name)

    @rule(seconds=st.sampled_from([0.5, 3.0, 5.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def settle(self) -> None:
        self.bandit.settle()
        self.settle_timed_out()

    @rule(target=decisions)
    def save_and_load(self) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            self.bandit.save(Path(folder) / "bandit")
            loaded = Bandit.load(Path(folder) / "bandit", clock=self.clock)
        assert full_state(loaded) == full_state(self.bandit)
        self.bandit.log_to(None)
        self.bandit = loaded
        self.bandit.log_to(self.log)
        return multiple()

    def settle_timed_out(self) -> None:
        for name, entry in list(self.pending.items()):
            if self.clock.now - entry.decided_at > REWARD_TIMEOUT:
                self.finish(name)

    def finish(self, name: str, evicted: bool = False) -> None:
        """Settle a decision; the default reward is learned only after the timeout."""
        entry = self.settled[name] = self.pending.pop(name)
        assert self.policy is not None
        if entry.values:
            self.policy.learn(
                entry.x, entry.arm, AGGREGATES[self.reward_aggregation](entry.values), counted=True
            )
            self.rewarded += 1
            return
        self.closed += 1
        if self.default is not None and not evicted:
            self.policy.learn(entry.x, entry.arm, self.default, counted=True)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "bandit"):
            return
        counts = self.bandit.counts
        closed = counts["timed_out"] + counts["evicted"] + counts["removed"]
        assert (counts["decisions"], counts["rewarded"]) == (self.decided, self.rewarded)
        assert (closed, counts["pending"]) == (self.closed, len(self.pending))

    @invariant()
    def the_policy_has_learned_what_the_model_says(self) -> None:
        if self.policy is not None:
            self.check_policy(self.bandit)

    def check_policy(self, bandit: Bandit) -> None:
        assert self.policy is not None
        own, expected = bandit.snapshot().arrays, self.policy.snapshot().arrays
        for name, array in expected.items():
            assert np.array_equal(own[f"policy.{name}"], array), name


TestDelayedRewards = DelayedRewards.TestCase
TestDelayedRewards.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
