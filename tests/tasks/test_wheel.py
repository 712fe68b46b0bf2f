"""The wheel bandit."""

import numpy as np

from glcb.tasks import Wheel


def test_optimum_and_uniform_rewards_are_as_published() -> None:
    streams = [Wheel().stream(seed) for seed in range(40)]
    assert abs(np.mean([s.optimum for s in streams]) / 5245 - 1) < 0.02
    assert abs(np.mean([s.rewards.mean(axis=1).sum() for s in streams]) / 1216 - 1) < 0.02
    assert abs(np.mean([s.rewards[:, 4].sum() for s in streams]) / 406 - 1) < 0.02


def test_at_the_rim_the_arm_of_the_quadrant_pays() -> None:
    stream = Wheel().stream(0)
    x = stream.contexts.astype(float) * 2 - 1
    assert stream.contexts.min() >= 0
    assert stream.contexts.max() <= 1
    rim = stream.rewards.max(axis=1) > 5
    assert abs(rim.mean() - (1 - 0.95**2)) < 0.01
    for right, upper, arm in ((True, True, 0), (True, False, 1), (False, True, 2), (False, False, 3)):
        here = (
            rim & ((x[:, 0] > 0.01) == right) & ((x[:, 1] > 0.01) == upper) & (np.abs(x).min(axis=1) > 0.02)
        )
        assert (stream.rewards[here].argmax(axis=1) == arm).all()
    assert stream.rewards.min() == 0
    assert stream.rewards.max() == 10


def test_the_same_seed_gives_identical_read_only_arrays() -> None:
    one, two = Wheel().stream(3, 100), Wheel().stream(3, 100)
    assert one.contexts.tobytes() == two.contexts.tobytes()
    assert one.rewards.tobytes() == two.rewards.tobytes()
    assert not one.contexts.flags.writeable
    assert not one.rewards.flags.writeable
