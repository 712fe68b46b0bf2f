"""A short version of the soak test; ``make soak`` runs the long one."""

import pytest

from benchmarks.soak import Soak
from benchmarks.threads import ThreadSoak


@pytest.mark.parametrize(("policy", "operations"), [("linucb", 6000), ("glcb", 2500)])
def test_a_random_mix_of_operations_loses_nothing(policy: str, operations: int) -> None:
    soak = Soak(policy, seed=0)
    soak.run(operations)
    assert soak.ledger.decisions > 0.45 * operations
    assert soak.ledger.rewarded > 0.4 * operations
    assert soak.ledger.refused > 0.03 * operations


@pytest.mark.parametrize(("policy", "operations"), [("linucb", 12_000), ("glcb", 4000)])
def test_many_threads_lose_nothing(policy: str, operations: int) -> None:
    soak = ThreadSoak(policy, threads=4, seed=0)
    counts = soak.run(operations)
    assert sum(counts.values()) == operations
    assert counts["decisions"] > 0.45 * operations
    assert counts["rewarded"] > 0.2 * operations
    for refusal in ("duplicate", "repeated", "invalid"):
        assert counts[refusal] > 0, refusal
    if policy == "linucb":  # enough decisions that some are evicted
        assert counts["closed"] > 0
