"""The confidence interval of the lift: valid at all times, also while the bandit learns."""

import math

import numpy as np
import pytest

from glcb.service.lift import CONFIDENCE, Group, interval
from glcb.service.lift import _boundary as boundary

RUNS, STEPS, SHARE = 100, 1500, 0.2


def ever_missed(rng: np.random.Generator, bandit: np.ndarray, control: float) -> bool:
    """Simulate one experiment; return whether the interval missed the true lift at any step."""
    groups = {False: Group(), True: Group()}
    truth = {False: 0.0, True: 0.0}
    draws = rng.random((STEPS, 2))
    for step in range(STEPS):
        held_out = bool(draws[step, 0] < SHARE)
        expected = control if held_out else bandit[step]
        groups[held_out].add(float(draws[step, 1] < expected))
        truth[held_out] += expected
        ends = interval(groups[False], groups[True])
        if ends is not None:
            lift = truth[False] / groups[False].n - truth[True] / groups[True].n
            if not ends[0] <= lift <= ends[1]:
                return True
    return False


@pytest.mark.parametrize("end", [0.1, 0.5, 0.95], ids=["no lift", "some lift", "large lift"])
def test_the_interval_covers_the_true_lift_at_all_times(end: float) -> None:
    rng = np.random.default_rng(10_000)
    curve = 0.1 + (end - 0.1) * np.linspace(0, 1, STEPS) ** 0.5
    missed = sum(ever_missed(rng, curve, 0.1) for _ in range(RUNS))
    # At an error rate of 5 %, more than 12 misses of 100 have a probability below 0.001.
    assert missed <= 12


def test_a_fixed_time_interval_would_fail_when_checked_repeatedly() -> None:
    """This shows that the test above has power."""
    rng, missed = np.random.default_rng(10_001), 0
    for _ in range(60):
        wins = np.cumsum(rng.random(STEPS) < 0.5)
        n = np.arange(1, STEPS + 1)
        usual = 1.96 * 0.5 / np.sqrt(n)
        missed += bool((np.abs(wins / n - 0.5) > usual).any())
    assert missed > 15  # the nominal number is 3


def test_the_interval_becomes_narrow() -> None:
    rng = np.random.default_rng(10_002)
    bandit, holdout = Group(), Group()
    for _ in range(20_000):
        bandit.add(float(rng.random() < 0.3))
        holdout.add(float(rng.random() < 0.2))
    ends = interval(bandit, holdout)
    assert ends is not None
    assert 0.05 < ends[0] < 0.1 < ends[1] < 0.15
    assert ends[1] - ends[0] < 4 * 2 * 1.96 * math.sqrt(2 * 0.2 / 20_000)


def test_a_group_without_rewards_has_no_interval() -> None:
    group = Group()
    group.add(1.0)
    assert interval(group, Group()) is None
    assert group.mean == 1.0
    assert Group().mean is None


def test_the_boundary_matches_the_paper() -> None:
    """Computed by hand for V = 80 and an error of 1 %: three doublings after 10."""
    level = 1.4 * math.log(4) + math.log(3.105547) + math.log(100)
    k1, k2 = (2**0.25 + 2**-0.25) / math.sqrt(2), (math.sqrt(2) + 1) / 2
    expected = math.sqrt(k1**2 * 80 * level + k2**2 * level**2) + k2 * level
    assert boundary(80.0, 0.01) == pytest.approx(expected)
    zeta = sum(k**-1.4 for k in range(1, 1_000_000)) + 1_000_000**-0.4 / 0.4
    assert zeta == pytest.approx(3.105547, abs=1e-4)
    assert CONFIDENCE == 0.95
