"""Orders, delays, duplicates, losses, saves and loads: what is learned is what a plain ledger says.

And whoever reads the log knows as much.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from glcb import Bandit, ClosedDecision, DuplicateReward, Policy, UnknownDecision
from tests.bandit.anybody import everything
from tests.bandit.clocks import Watch

ARMS = ("a", "b", "c")
REWARD_TIMEOUT, MAX_PENDING = 10.0, 4
SMALL: dict[str, dict[str, Any]] = {"glcb": {"layers": [4, 2], "hyperplanes": 2}}
COMBINED: dict[str, Any] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "max": max,
    "sum": lambda values: min(max(sum(values), -1.0), 3.0),
}
contexts = st.fixed_dictionaries({"age": st.integers(0, 100), "country": st.sampled_from(["FR", "DE"])})


class Entry:
    """A decision as the ledger sees it."""

    def __init__(self, x: np.ndarray, arm: Any, since: float) -> None:
        self.x, self.arm, self.since = x, arm, since
        self.values: list[float] = []
        self.keys: set[str] = set()


class Late(RuleBasedStateMachine):
    """A bandit beside a ledger, and a policy that is fed what the ledger says, as soon as it says so."""

    decisions = Bundle("decisions")

    def __init__(self) -> None:
        super().__init__()
        self.watch = Watch()
        self.waiting: dict[str, Entry] = {}
        self.gone: dict[str, Entry] = {}
        self.issued = self.rewarded = self.expired = 0
        self.twin: Policy | None = None
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "log.jsonl"

    def teardown(self) -> None:
        if self.twin is not None:
            self.bandit.log_to(None)
            reader = Bandit(**{**self.bandit.get_params(), "clock": self.watch})
            assert not reader.learn_from(self.log).refused
            self.knows_as_much(reader)
        self.folder.cleanup()

    @initialize(
        policy=st.sampled_from(["glcb", "linucb", "ucb1", "linfullpost"]),
        reward_aggregation=st.sampled_from(list(COMBINED)),
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
            clock=self.watch,
            policy_settings=SMALL.get(policy),
        )
        self.bandit.log_to(self.log)

    @rule(target=decisions, context=contexts)
    def decide(self, context: dict[str, Any]) -> Any:
        self.time_passes()
        if len(self.waiting) == MAX_PENDING:
            self.finish(next(iter(self.waiting)), in_time=True)
        decision = self.bandit.decide(context)
        x = self.bandit._waiting.find(decision.id).x.copy()
        if self.twin is None:
            self.twin = self.bandit._parameters.make_policy(ARMS, x.size)
        self.twin.count_decision(x, decision.arm)
        self.waiting[decision.id] = Entry(x, decision.arm, self.watch.now)
        self.issued += 1
        return decision.id

    @rule(name=decisions, value=st.floats(-1, 3, width=32), key=st.none() | st.sampled_from("kl"))
    def reward(self, name: str, value: float, key: str | None) -> None:
        entry = self.waiting.get(name)
        known = key is not None and key in (entry or self.gone[name]).keys
        over = entry is None or self.watch.now - entry.since > REWARD_TIMEOUT
        before = everything(self.bandit)
        try:
            self.bandit.reward(name, value, idempotency_key=key)
        except (ClosedDecision, DuplicateReward):
            assert over
            assert not known
            assert everything(self.bandit) == before
            return
        except UnknownDecision:  # so many others are over that nobody remembers this one
            assert len(self.gone) > MAX_PENDING
            assert name in self.gone
            assert everything(self.bandit) == before
            return
        if known:
            assert everything(self.bandit) == before
            return
        assert entry is not None
        assert not over
        self.time_passes()
        entry.values.append(value)
        if key is not None:
            entry.keys.add(key)
        if self.reward_aggregation == "first":
            self.finish(name)

    @rule(seconds=st.sampled_from([0.5, 3.0, 5.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.watch.now += seconds

    @rule()
    def settle(self) -> None:
        self.bandit.settle()
        self.time_passes()

    @rule(target=decisions)
    def save_and_load(self) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            self.bandit.save(Path(folder) / "bandit")
            loaded = Bandit.load(Path(folder) / "bandit", clock=self.watch)
        assert everything(loaded) == everything(self.bandit)
        self.bandit.log_to(None)
        self.bandit = loaded
        self.bandit.log_to(self.log)
        return multiple()

    def time_passes(self) -> None:
        for name, entry in list(self.waiting.items()):
            if self.watch.now - entry.since > REWARD_TIMEOUT:
                self.finish(name)

    def finish(self, name: str, in_time: bool = False) -> None:
        """Close an entry; the default counts only if its time is over."""
        entry = self.gone[name] = self.waiting.pop(name)
        assert self.twin is not None
        if entry.values:
            self.twin.learn(entry.x, entry.arm, COMBINED[self.reward_aggregation](entry.values), counted=True)
            self.rewarded += 1
            return
        self.expired += 1
        if self.default is not None and not in_time:
            self.twin.learn(entry.x, entry.arm, self.default, counted=True)

    @invariant()
    def books_balance(self) -> None:
        if not hasattr(self, "bandit"):
            return
        counts = self.bandit.counts
        closed = counts["timed_out"] + counts["evicted"] + counts["removed"]
        assert (counts["decisions"], counts["rewarded"]) == (self.issued, self.rewarded)
        assert (closed, counts["pending"]) == (self.expired, len(self.waiting))

    @invariant()
    def the_policy_knows_what_the_ledger_says(self) -> None:
        if self.twin is not None:
            self.knows_as_much(self.bandit)

    def knows_as_much(self, bandit: Bandit) -> None:
        assert self.twin is not None
        own, told = bandit.__getstate__().arrays, self.twin.__getstate__().arrays
        for name, array in told.items():
            assert np.array_equal(own[f"policy.{name}"], array), name


TestLate = Late.TestCase
TestLate.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
