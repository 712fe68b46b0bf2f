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
from tests.support.bandits import full_state
from tests.support.manual_clock import ManualClock

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
        self.label: str | None = None


class DelayedRewards(RuleBasedStateMachine):
    """A bandit next to a model of its decisions, and a policy that learns what the model says."""

    decisions = Bundle("decisions")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.pending: dict[str, Entry] = {}
        self.settled: dict[str, Entry] = {}
        self.unlabeled: list[Entry] = []
        self.delays: list[float] = []
        self.surplus = dict.fromkeys(ARMS, 0)
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
            if self.default is not None:  # otherwise the log does not contain the timeouts
                assert reader.counts == self.bandit.counts
                assert full_state(reader)[0] == full_state(self.bandit)[0]
        self.folder.cleanup()

    @initialize(
        policy=st.sampled_from(["glcb", "linucb", "ucb1", "linfullpost"]),
        reward_aggregation=st.sampled_from(list(AGGREGATES)),
        default=st.none() | st.just(-0.5),
    )
    def begin(self, policy: str, reward_aggregation: Any, default: float | None) -> None:
        self.reward_aggregation, self.default = reward_aggregation, default
        self.has_labels = reward_aggregation == "first" and default is not None
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
        self.settle_due(incoming=1)
        decision = self.bandit.decide(context)
        x = self.bandit._core.pending.find(decision.id).x.copy()
        if self.policy is None:
            self.policy = self.bandit._core.config.make_policy(ARMS, x.size)
        self.policy.count_decision(x, decision.arm)
        self.pending[decision.id] = entry = Entry(x, decision.arm, self.clock.now)
        if self.has_labels:
            self.unlabeled.append(entry)
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
        self.settle_due(reported=entry)
        entry.values.append(value)
        if key is not None:
            entry.keys.add(key)
        if self.has_labels:
            self.delays.append(self.clock.now - entry.decided_at)
            if entry.label is not None or self.clock.now - entry.decided_at >= self.label_age():
                self.surplus[entry.arm] += entry.label == "default"
                self.learn(entry, value)
        if self.reward_aggregation == "first":
            self.settled[name] = self.pending.pop(name)
            self.rewarded += 1
            if not self.has_labels:
                self.learn(entry, value)

    @rule(seconds=st.sampled_from([0.5, 3.0, 5.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def settle(self) -> None:
        self.bandit.settle()
        self.settle_due()

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

    def label_age(self) -> float:
        if not self.delays:
            return REWARD_TIMEOUT
        return float(np.quantile(self.delays, 0.9, method="inverted_cdf"))

    def settle_due(self, incoming: int = 0, reported: Entry | None = None) -> None:
        for name, entry in list(self.pending.items()):
            has_outcome = bool(entry.values) or self.default is not None
            displaced = len(self.pending) + incoming > MAX_PENDING
            if self.clock.now - entry.decided_at > REWARD_TIMEOUT or (displaced and has_outcome):
                self.close(name)
            elif displaced:
                self.settled[name] = self.pending.pop(name)
                self.closed += 1
        for entry in list(self.unlabeled):
            displaced = len(self.unlabeled) + incoming > MAX_PENDING
            if entry is not reported and (displaced or self.clock.now - entry.decided_at >= self.label_age()):
                self.learn_label(entry)

    def close(self, name: str) -> None:
        """Settle a decision at its timeout, or because newer ones have displaced it."""
        entry = self.settled[name] = self.pending.pop(name)
        if entry.values:
            self.rewarded += 1
        else:
            self.closed += 1
        self.learn_label(entry)

    def learn_label(self, entry: Entry) -> None:
        """Learn the reward of a decision, or the default; each default that was wrong makes up for one."""
        if entry.label is not None:
            return
        if entry.values:
            self.learn(entry, AGGREGATES[self.reward_aggregation](entry.values))
        elif self.default is not None and self.surplus[entry.arm]:
            self.surplus[entry.arm] -= 1
            entry.label = "waived"
        elif self.default is not None:
            self.learn(entry, self.default)
            entry.label = "default"
        if entry in self.unlabeled:
            self.unlabeled.remove(entry)

    def learn(self, entry: Entry, value: float) -> None:
        assert self.policy is not None
        self.policy.learn(entry.x, entry.arm, value, counted=True)
        if entry in self.unlabeled:
            self.unlabeled.remove(entry)

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
        own, expected = bandit._snapshot().arrays, self.policy.snapshot().arrays
        for name, array in expected.items():
            assert np.array_equal(own[f"policy.{name}"], array), name


TestDelayedRewards = DelayedRewards.TestCase
TestDelayedRewards.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
