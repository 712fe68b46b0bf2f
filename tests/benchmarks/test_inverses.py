"""The running inverses of the policy stay accurate; ``make soak`` runs the same for a million rewards."""

import pytest

from benchmarks.inverses import BOUNDED, CONTEXTS, run
from glcb._types import Rewards


@pytest.mark.parametrize("rewards", ["binary", BOUNDED])
@pytest.mark.parametrize("contexts", CONTEXTS)
def test_inverses_agree_with_direct_ones(contexts: str, rewards: Rewards) -> None:
    errors = run(CONTEXTS[contexts], rewards, steps=2000)
    weak = {"weak"} if rewards == "binary" else set()
    assert set(errors) == {"linear", "fourier", "networks 0", "networks 1"} | weak
    assert max(errors.values()) < 1e-8
