"""Equal steps give equal bits, wherever the arrays are in memory."""

from hashlib import sha256

import numpy as np
import pytest

from glcb import Bandit
from glcb._types import Rewards
from glcb.explore.probabilities import _write_probabilities

FEATURES, ARMS = (2, 5, 9, 14, 20), (2, 4, 7, 12)


def digest_of_run(features: int, arms: int, rewards: Rewards, clutter: int) -> str:
    """Return a digest of a bandit after 40 steps, with a heap layout that depends on ``clutter``."""
    steps, noise = np.random.default_rng(features), np.random.default_rng(clutter)
    bandit = Bandit(arms, rewards=rewards, seed=1)
    kept: list[np.ndarray] = []
    for _ in range(40):
        kept += [np.empty(noise.integers(1, 60)) for _ in range(noise.integers(20))]
        del kept[:: int(noise.integers(2, 5))]
        decision = bandit.decide(steps.random(features))
        bandit.reward(decision.id, float(steps.random() < 0.4))
    digest = sha256()
    for name, array in sorted(bandit._snapshot().arrays.items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("rewards", ["binary", (0.0, 1.0)])
@pytest.mark.parametrize("arms", ARMS)
def test_a_run_does_not_depend_on_the_heap_layout(arms: int, rewards: Rewards) -> None:
    for features in FEATURES:
        assert len({digest_of_run(features, arms, rewards, clutter) for clutter in range(4)}) == 1, features


@pytest.mark.parametrize("arms", [2, 3, 4, 8, 12, 20])
def test_probabilities_do_not_depend_on_the_distance_between_arrays(arms: int) -> None:
    rng = np.random.default_rng(arms)
    for _ in range(100):
        scores, results = rng.random(arms), set()
        for gap in (0, 1, 2, 3, 5, 9, 17, 40):
            memory = np.zeros(2 * arms + gap)
            memory[:arms] = scores
            _write_probabilities(memory[:arms], 0.05, True, memory[arms + gap :])
            results.add(memory[arms + gap :].tobytes())
        assert len(results) == 1
