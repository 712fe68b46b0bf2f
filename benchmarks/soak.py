"""A bandit under a long and disorderly life: ``make soak``.

Visitors with odd contexts, rewards late, twice, wrong or never, arms that come and go, saves and loads in
between. A ledger beside it knows what must be true: nothing is lost, nothing is poisoned, memory is flat.
Then as many operations from several threads at once.
"""

import argparse
import math
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.crowd import Crowd
from benchmarks.visitors import visitor
from glcb import Bandit, BanditDecision, GlcbError

ODD_CONTEXTS: tuple[Any, ...] = (None, 5, "text", [1, 2], {1.5: 1}, {"age": 1, 7: 1, "7": 1})
ODD_REWARDS: tuple[Any, ...] = (None, math.nan, 2, -1, "1", [1], 10**400)
MAX_PENDING = 1000
CHECKS = 50
"""The whole state is looked at this many times."""
LARGEST_GROWTH = 0.1
"""Of the peak of memory, from the first fifth of a soak to its end."""


@dataclass
class Ledger:
    """What must be true."""

    issued: int = 0
    rewarded: int = 0
    refused: int = 0
    saves: int = 0
    changes: int = 0
    waiting: dict[str, BanditDecision] = field(default_factory=dict)
    settled: list[str] = field(default_factory=list)


class Soak:
    """One bandit, its ledger and the dice."""

    def __init__(self, policy: str, seed: int) -> None:
        self.bandit = Bandit(4, policy=policy, max_pending=MAX_PENDING, seed=seed)
        self.ledger = Ledger()
        self._rng = np.random.default_rng(seed)
        self._arms = 4
        self._deeds: list[tuple[float, Callable[[], None]]] = [
            (0.5, self.decide),
            (0.96, self.reward),
            (0.98, self.decide_nonsense),
            (0.9995, self.reward_nonsense),
            (1.0, self.change_arms),
        ]

    def run(self, operations: int) -> float:
        """Do so many things; return by how much the peak of memory grew after the first fifth."""
        early = 0
        with tempfile.TemporaryDirectory() as folder:
            for operation in range(operations):
                dice = self._rng.random()
                next(deed for share, deed in self._deeds if dice < share)()
                if operation == operations // 5:
                    early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                if operation % max(1, operations // CHECKS) == 0:
                    self.save_and_load(Path(folder) / "bandit")
                    self.check()
        self.check()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / early - 1

    def decide(self) -> None:
        """Decide, some of the time among some of the arms only."""
        arms = self.bandit.arms
        eligible = arms[: 1 + int(self._rng.integers(len(arms)))] if self._rng.random() < 0.2 else None
        decision = self.bandit.decide(visitor(self._rng), eligible=eligible)
        assert decision.arm in (eligible or arms)
        assert 0 < decision.propensity <= 1
        assert math.isclose(decision.arm_probabilities.sum(), 1)
        ledger = self.ledger
        ledger.issued += 1
        assert decision.id not in ledger.waiting
        ledger.waiting[decision.id] = decision
        if len(ledger.waiting) > MAX_PENDING:
            self._settle(next(iter(ledger.waiting)))

    def reward(self) -> None:
        """Reward one that waits, or one of the latest; a good arm pays more often."""
        ledger = self.ledger
        if not ledger.waiting:
            return
        name = next(reversed(ledger.waiting)) if self._rng.random() < 0.9 else next(iter(ledger.waiting))
        good = int(ledger.waiting[name].arm) % 3 == 0
        self.bandit.reward(name, int(self._rng.random() < (0.7 if good else 0.2)))
        ledger.rewarded += 1
        self._settle(name)

    def decide_nonsense(self) -> None:
        """Nothing may come of a context that is none, or of arms that do not exist."""
        if self._rng.random() < 0.5:
            context = ODD_CONTEXTS[self._rng.integers(len(ODD_CONTEXTS))]
            self._refused(lambda: self.bandit.decide(context))
        else:
            self._refused(lambda: self.bandit.decide(visitor(self._rng), eligible=["nobody"]))

    def reward_nonsense(self) -> None:
        """Nothing may come of a second reward, an unknown id or a reward that cannot be."""
        ledger = self.ledger
        if ledger.settled:
            self._refused(lambda: self.bandit.reward(ledger.settled[-1], 1))
        self._refused(lambda: self.bandit.reward(f"{self._rng.integers(10**6)}-0", 1))
        if ledger.waiting:
            value = ODD_REWARDS[self._rng.integers(len(ODD_REWARDS))]
            self._refused(lambda: self.bandit.reward(next(iter(ledger.waiting)), value))

    def change_arms(self) -> None:
        """Add an arm, fresh or as a copy, or remove one."""
        arms = self.bandit.arms
        if self.bandit._policy is None or not self.bandit._policy.arms_can_change:
            return
        self.ledger.changes += 1
        if len(arms) < 3 or (len(arms) < 8 and self._rng.random() < 0.5):
            like = arms[self._rng.integers(len(arms))] if self._rng.random() < 0.5 else None
            self.bandit.add_arm(self._arms, like=like)
            self._arms += 1
            return
        gone = arms[self._rng.integers(len(arms))]
        self.bandit.remove_arm(gone)
        for name in [name for name, decision in self.ledger.waiting.items() if decision.arm == gone]:
            self._settle(name)

    def save_and_load(self, path: Path) -> None:
        """Go on with what was read from the file."""
        self.bandit.save(path)
        before = path.read_bytes()
        self.bandit = Bandit.load(path)
        self.bandit.save(path)
        assert path.read_bytes() == before
        self.ledger.saves += 1

    def check(self) -> None:
        """Look at everything."""
        ledger, counts = self.ledger, self.bandit.counts
        assert counts["decisions"] == ledger.issued
        assert counts["rewarded"] == ledger.rewarded
        assert counts["pending"] == len(ledger.waiting)
        assert 2 * counts["decisions"] == sum(counts.values())
        for name, array in self.bandit.__getstate__().arrays.items():
            assert np.isfinite(array).all(), name

    def _refused(self, deed: Callable[[], object]) -> None:
        try:
            deed()
        except GlcbError:
            self.ledger.refused += 1
        else:
            raise AssertionError("nonsense was accepted")

    def _settle(self, name: str) -> None:
        del self.ledger.waiting[name]
        self.ledger.settled = [*self.ledger.settled[-9:], name]


def main() -> None:
    """Soak, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--policy", default="glcb")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    soak, start = Soak(chosen.policy, chosen.seed), time.perf_counter()
    growth = soak.run(chosen.operations)
    ledger = soak.ledger
    print(
        f"{chosen.operations:,} operations with {chosen.policy} in {time.perf_counter() - start:,.0f} s: "
        f"{ledger.issued:,} decisions, {ledger.rewarded:,} rewards, {ledger.refused:,} refusals, "
        f"{ledger.changes:,} changes of arms, {ledger.saves:,} saves and loads; nothing lost, no NaN, "
        f"peak of memory {growth:+.1%} after the first fifth"
    )
    assert growth <= LARGEST_GROWTH, "memory grows"
    start = time.perf_counter()
    told = Crowd(chosen.policy, chosen.threads, chosen.seed).run(chosen.operations)
    print(
        f"{chosen.operations:,} operations from {chosen.threads} threads in "
        f"{time.perf_counter() - start:,.0f} s: {told['issued']:,} decisions, {told['rewarded']:,} rewards, "
        f"{told['twice']:,} that came twice, {told['repeated']:,} with a known key, {told['expired']:,} of "
        f"expired and {told['forgotten']:,} of forgotten decisions, {told['nonsense']:,} impossible ones; "
        "the counts of all add up, no NaN"
    )


if __name__ == "__main__":
    main()
