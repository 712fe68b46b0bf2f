"""One bandit and many threads that decide, reward late, twice and under ids that nobody has: ``make soak``.

All threads take ids from one pool, so that they race for the same rewards. Of each race one may win. What
they count on their own has to add up to what the bandit says.
"""

from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.visitors import visitor
from glcb import Bandit, ClosedDecision, DuplicateReward, InvalidReward, UnknownDecision

MAX_PENDING = 300
LOOKS = 1000
"""Every so many operations a thread looks at the counts."""


class Crowd:
    """One bandit in many hands."""

    def __init__(self, policy: str, threads: int, seed: int) -> None:
        self.bandit = Bandit(4, policy=policy, max_pending=MAX_PENDING, seed=seed)
        self._threads = threads
        self._seed = seed
        # Larger than the room: some ids are of decisions that have made way for others already.
        self._pool: deque[str] = deque(maxlen=4 * MAX_PENDING)

    def run(self, operations: int) -> Counter[str]:
        """Do so many things; return how often what happened, as the threads counted it."""
        shares = [operations // self._threads] * self._threads
        with ThreadPoolExecutor(self._threads) as pool:
            told = list(pool.map(self._work, range(self._threads), shares))
        total = sum(told, Counter[str]())
        self.check(total)
        return total

    def _work(self, thread: int, operations: int) -> Counter[str]:
        rng = np.random.default_rng((self._seed, thread))
        told: Counter[str] = Counter()
        for operation in range(operations):
            dice = rng.random()
            if dice < 0.5 or not self._pool:
                decision = self.bandit.decide(visitor(rng))
                assert 0 < decision.propensity <= 1
                self._pool.append(decision.id)
                told["decisions"] += 1
            elif dice < 0.97:
                told[self._reward(rng)] += 1
            else:
                told[self._reward_nonsense(rng)] += 1
            if operation % LOOKS == 0:
                self._look()
        return told

    def _reward(self, rng: np.random.Generator) -> str:
        """Reward one of the pool, rather a new one, half of them with one of two keys."""
        place = -1 - int(len(self._pool) * rng.random() ** 3)
        key = int(rng.integers(2)) if rng.random() < 0.5 else None
        try:
            taken = self.bandit.reward(self._pool[place], int(rng.integers(2)), idempotency_key=key)
        except DuplicateReward:
            return "twice"
        except ClosedDecision:
            return "closed"
        except UnknownDecision:  # so old that nobody knows what became of it
            return "forgotten"
        return "rewarded" if taken else "repeated"

    def _reward_nonsense(self, rng: np.random.Generator) -> str:
        try:
            if rng.random() < 0.5:
                self.bandit.reward(f"{rng.integers(10**6)}-0", 1)
            else:
                self.bandit.reward(self._pool[-1], 2)
        except (UnknownDecision, InvalidReward):
            return "nonsense"
        raise AssertionError("nonsense was accepted")

    def _look(self) -> None:
        counts = self.bandit.counts
        assert 2 * counts["decisions"] == sum(counts.values()), counts
        assert counts["pending"] <= MAX_PENDING

    def check(self, told: Counter[str]) -> None:
        """Look at everything, when all is quiet again."""
        self._look()
        counts = self.bandit.counts
        assert counts["decisions"] == told["decisions"]
        assert counts["rewarded"] == told["rewarded"]
        assert sum(self.bandit.reward_counts.values()) == told["rewarded"]
        for name, array in self.bandit.__getstate__().arrays.items():
            assert np.isfinite(array).all(), name
