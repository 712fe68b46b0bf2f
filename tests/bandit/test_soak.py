"""The soak in a short form; ``make soak`` runs the long one."""

import pytest

from benchmarks.crowd import Crowd
from benchmarks.soak import Soak


@pytest.mark.parametrize(("policy", "operations"), [("linucb", 6000), ("glcb", 2500)])
def test_a_disorderly_life_loses_nothing(policy: str, operations: int) -> None:
    soak = Soak(policy, seed=0)
    soak.run(operations)
    assert soak.ledger.issued > 0.45 * operations
    assert soak.ledger.rewarded > 0.4 * operations
    assert soak.ledger.refused > 0.03 * operations


@pytest.mark.parametrize(("policy", "operations"), [("linucb", 12_000), ("glcb", 4000)])
def test_many_threads_lose_nothing(policy: str, operations: int) -> None:
    crowd = Crowd(policy, threads=4, seed=0)
    told = crowd.run(operations)
    assert sum(told.values()) == operations
    assert told["decisions"] > 0.45 * operations
    assert told["rewarded"] > 0.2 * operations
    for refusal in ("twice", "repeated", "nonsense"):
        assert told[refusal] > 0, refusal
    if policy == "linucb":  # enough decisions for some to make way
        assert told["closed"] > 0
