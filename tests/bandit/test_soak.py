"""The soak in a short form; ``make soak`` runs the long one."""

import pytest

from benchmarks.soak import Soak


@pytest.mark.parametrize(("policy", "operations"), [("linucb", 6000), ("glcb", 2500)])
def test_a_disorderly_life_loses_nothing(policy: str, operations: int) -> None:
    soak = Soak(policy, seed=0)
    soak.run(operations)
    assert soak.ledger.issued > 0.45 * operations
    assert soak.ledger.rewarded > 0.4 * operations
    assert soak.ledger.refused > 0.03 * operations
