"""Random sequences of requests: snapshots and replays restore the exact state."""

import pytest

from benchmarks.walks import Walk


@pytest.mark.parametrize("seed", range(5))
def test_snapshots_and_replays_restore_the_exact_state(seed: int) -> None:
    walk = Walk(seed)
    walk.run(60)
    assert walk.events > 10
