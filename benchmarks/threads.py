"""Soak test of one bandit shared by many threads: part of ``make soak``.

The threads decide and reward concurrently; rewards are late, duplicated or refer to unknown decisions. All
threads take ids from one pool, so they race for the same rewards, and only one may win each race. Afterwards
the counts kept by the threads must agree with the counts of the bandit.
"""

from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.odd_contexts import random_context
from glcb import Bandit, ClosedDecision, DuplicateReward, InvalidReward, UnknownDecision

MAX_PENDING = 300
CHECK_INTERVAL = 1000
"""Operations of a thread between two checks of the counts."""


class ThreadSoak:
    """One bandit used by many threads."""

    def __init__(self, policy: str, threads: int, seed: int) -> None:
        self.bandit = Bandit(4, policy=policy, max_pending=MAX_PENDING, seed=seed)
        self._threads = threads
        self._seed = seed
        # Larger than max_pending, so that some ids belong to decisions that were evicted.
        self._ids: deque[str] = deque(maxlen=4 * MAX_PENDING)

    def run(self, operations: int) -> Counter[str]:
        """Run the operations, spread over the threads; return the counts kept by the threads, by result."""
        shares = [operations // self._threads] * self._threads
        with ThreadPoolExecutor(self._threads) as pool:
            counts = list(pool.map(self._work, range(self._threads), shares))
        total = sum(counts, Counter[str]())
        self.check(total)
        return total

    def _work(self, thread: int, operations: int) -> Counter[str]:
        rng = np.random.default_rng((self._seed, thread))
        results: Counter[str] = Counter()
        for operation in range(operations):
            draw = rng.random()
            if draw < 0.5 or not self._ids:
                decision = self.bandit.decide(random_context(rng))
                assert 0 < decision.propensity <= 1
                self._ids.append(decision.id)
                results["decisions"] += 1
            elif draw < 0.97:
                results[self._reward(rng)] += 1
            else:
                results[self._invalid_reward(rng)] += 1
            if operation % CHECK_INTERVAL == 0:
                self._check_counts()
        return results

    def _reward(self, rng: np.random.Generator) -> str:
        """Reward a pooled id, preferring recent ones; half of the rewards have an idempotency key."""
        position = -1 - int(len(self._ids) * rng.random() ** 3)
        key = int(rng.integers(2)) if rng.random() < 0.5 else None
        try:
            accepted = self.bandit.reward(self._ids[position], int(rng.integers(2)), idempotency_key=key)
        except DuplicateReward:
            return "duplicate"
        except ClosedDecision:
            return "closed"
        except UnknownDecision:  # closed so long ago that the bandit no longer remembers the id
            return "unknown"
        return "rewarded" if accepted else "repeated"

    def _invalid_reward(self, rng: np.random.Generator) -> str:
        try:
            if rng.random() < 0.5:
                self.bandit.reward(f"{rng.integers(10**6)}-0", 1)
            else:
                self.bandit.reward(self._ids[-1], 2)
        except (UnknownDecision, InvalidReward):
            return "invalid"
        raise AssertionError("an invalid reward was accepted")

    def _check_counts(self) -> None:
        counts = self.bandit.counts
        assert 2 * counts["decisions"] == sum(counts.values()), counts
        assert counts["pending"] <= MAX_PENDING

    def check(self, results: Counter[str]) -> None:
        """Compare the counts of the bandit and the threads, and look for NaN, once no thread runs."""
        self._check_counts()
        counts = self.bandit.counts
        assert counts["decisions"] == results["decisions"]
        assert counts["rewarded"] == results["rewarded"]
        assert sum(self.bandit.reward_counts.values()) == results["rewarded"]
        for name, array in self.bandit._snapshot().arrays.items():
            assert np.isfinite(array).all(), name
