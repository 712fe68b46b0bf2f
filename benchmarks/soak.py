"""Soak test of a bandit: ``make soak``.

Malformed contexts; rewards that are late, duplicated, invalid or missing; arms added and removed; saves and
loads in between. A ledger records the expected state: no decision is lost, no number is NaN, memory is flat.
The same number of operations then runs on several threads.
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

from benchmarks.odd_contexts import random_context
from benchmarks.threads import ThreadSoak
from glcb import Bandit, BanditDecision, GlcbError

ODD_CONTEXTS: tuple[Any, ...] = (None, 5, "text", [1, 2], {1.5: 1}, {"age": 1, 7: 1, "7": 1})
ODD_REWARDS: tuple[Any, ...] = (None, math.nan, 2, -1, "1", [1], 10**400)
MAX_PENDING = 1000
CHECKS = 50
"""Number of checks of the whole state."""
MAX_GROWTH = 0.1
"""Maximum growth of peak memory, from the first fifth of the run to its end."""


@dataclass
class Ledger:
    """The expected state of the bandit."""

    decisions: int = 0
    rewarded: int = 0
    refused: int = 0
    saves: int = 0
    arm_changes: int = 0
    pending: dict[str, BanditDecision] = field(default_factory=dict)
    settled: list[str] = field(default_factory=list)


class Soak:
    """One bandit, its ledger and a random sequence of operations."""

    def __init__(self, policy: str, seed: int) -> None:
        self.bandit = Bandit(4, policy=policy, max_pending=MAX_PENDING, seed=seed)
        self.ledger = Ledger()
        self._rng = np.random.default_rng(seed)
        self._next_arm = 4
        self._operations: list[tuple[float, Callable[[], None]]] = [
            (0.5, self.decide),
            (0.96, self.reward),
            (0.98, self.decide_invalid),
            (0.9995, self.reward_invalid),
            (1.0, self.change_arms),
        ]

    def run(self, operations: int) -> float:
        """Run random operations; return the relative growth of peak memory after the first fifth."""
        early = 0
        with tempfile.TemporaryDirectory() as folder:
            for operation in range(operations):
                draw = self._rng.random()
                next(run for share, run in self._operations if draw < share)()
                if operation == operations // 5:
                    early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                if operation % max(1, operations // CHECKS) == 0:
                    self.save_and_load(Path(folder) / "bandit")
                    self.check()
        self.check()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / early - 1

    def decide(self) -> None:
        """Decide, for one in five decisions among a subset of the arms."""
        arms = self.bandit.arms
        eligible = arms[: 1 + int(self._rng.integers(len(arms)))] if self._rng.random() < 0.2 else None
        decision = self.bandit.decide(random_context(self._rng), eligible=eligible)
        assert decision.arm in (eligible or arms)
        assert 0 < decision.propensity <= 1
        assert math.isclose(decision.arm_probabilities.sum(), 1)
        ledger = self.ledger
        ledger.decisions += 1
        assert decision.id not in ledger.pending
        ledger.pending[decision.id] = decision
        if len(ledger.pending) > MAX_PENDING:
            self._settle(next(iter(ledger.pending)))

    def reward(self) -> None:
        """Reward the newest or the oldest pending decision; good arms have a higher reward probability."""
        ledger = self.ledger
        if not ledger.pending:
            return
        name = next(reversed(ledger.pending)) if self._rng.random() < 0.9 else next(iter(ledger.pending))
        good = int(ledger.pending[name].arm) % 3 == 0
        self.bandit.reward(name, int(self._rng.random() < (0.7 if good else 0.2)))
        ledger.rewarded += 1
        self._settle(name)

    def decide_invalid(self) -> None:
        """Invalid contexts and unknown arms must be rejected without side effects."""
        if self._rng.random() < 0.5:
            context = ODD_CONTEXTS[self._rng.integers(len(ODD_CONTEXTS))]
            self._refused(lambda: self.bandit.decide(context))
        else:
            self._refused(lambda: self.bandit.decide(random_context(self._rng), eligible=["unknown"]))

    def reward_invalid(self) -> None:
        """Duplicate rewards, unknown ids and invalid values must be rejected without side effects."""
        ledger = self.ledger
        if ledger.settled:
            self._refused(lambda: self.bandit.reward(ledger.settled[-1], 1))
        self._refused(lambda: self.bandit.reward(f"{self._rng.integers(10**6)}-0", 1))
        if ledger.pending:
            value = ODD_REWARDS[self._rng.integers(len(ODD_REWARDS))]
            self._refused(lambda: self.bandit.reward(next(iter(ledger.pending)), value))

    def change_arms(self) -> None:
        """Add a new or a copied arm, or remove one."""
        arms = self.bandit.arms
        if self.bandit._core.policy is None or not self.bandit._core.policy.arms_can_change:
            return
        self.ledger.arm_changes += 1
        if len(arms) < 3 or (len(arms) < 8 and self._rng.random() < 0.5):
            like = arms[self._rng.integers(len(arms))] if self._rng.random() < 0.5 else None
            self.bandit.add_arm(self._next_arm, like=like)
            self._next_arm += 1
            return
        removed = arms[self._rng.integers(len(arms))]
        self.bandit.remove_arm(removed)
        for name in [name for name, decision in self.ledger.pending.items() if decision.arm == removed]:
            self._settle(name)

    def save_and_load(self, path: Path) -> None:
        """Save the bandit and continue with the loaded copy."""
        self.bandit.save(path)
        before = path.read_bytes()
        self.bandit = Bandit.load(path)
        self.bandit.save(path)
        assert path.read_bytes() == before
        self.ledger.saves += 1

    def check(self) -> None:
        """Compare the bandit with the ledger and look for NaN."""
        ledger, counts = self.ledger, self.bandit.counts
        assert counts["decisions"] == ledger.decisions
        assert counts["rewarded"] == ledger.rewarded
        assert counts["pending"] == len(ledger.pending)
        assert 2 * counts["decisions"] == sum(counts.values())
        for name, array in self.bandit._snapshot().arrays.items():
            assert np.isfinite(array).all(), name

    def _refused(self, operation: Callable[[], object]) -> None:
        try:
            operation()
        except GlcbError:
            self.ledger.refused += 1
        else:
            raise AssertionError("invalid input was accepted")

    def _settle(self, name: str) -> None:
        del self.ledger.pending[name]
        self.ledger.settled = [*self.ledger.settled[-9:], name]


def main() -> None:
    """Run the soak tests and print a summary."""
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
        f"{ledger.decisions:,} decisions, {ledger.rewarded:,} rewards, {ledger.refused:,} refusals, "
        f"{ledger.arm_changes:,} arm changes, {ledger.saves:,} saves and loads; nothing lost, no NaN, "
        f"peak memory {growth:+.1%} after the first fifth"
    )
    assert growth <= MAX_GROWTH, "memory grows"
    start = time.perf_counter()
    results = ThreadSoak(chosen.policy, chosen.threads, chosen.seed).run(chosen.operations)
    print(
        f"{chosen.operations:,} operations from {chosen.threads} threads in "
        f"{time.perf_counter() - start:,.0f} s: {results['decisions']:,} decisions, "
        f"{results['rewarded']:,} rewards; rejected: {results['duplicate']:,} duplicates, "
        f"{results['closed']:,} for closed and {results['unknown']:,} for unknown decisions, "
        f"{results['invalid']:,} invalid; {results['repeated']:,} repeated with the same idempotency key; "
        "all counts agree, no NaN"
    )


if __name__ == "__main__":
    main()
