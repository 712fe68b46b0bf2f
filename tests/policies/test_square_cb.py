"""The probabilities of SquareCB."""

from collections import Counter

import numpy as np
import pytest

from glcb.policies import SquareCB

X = [0.5]
DRAWS = 4000


def taught() -> SquareCB:
    """Return a policy with values of about 3, 2 and 1 in the range from 1 to 3 after 300 decisions."""
    policy = SquareCB(["best", "middle", "worst"], 1, rewards=(1.0, 3.0), gamma=0.5)
    for _ in range(100):
        for arm, reward in zip(policy.arms, (3, 2, 1), strict=True):
            policy.learn(X, arm, reward)
    return policy


def shares(policy: SquareCB, **arguments: list[str]) -> dict[str, float]:
    counts = Counter(policy.decide(X, **arguments).arm for _ in range(DRAWS))
    return {str(arm): count / DRAWS for arm, count in counts.items()}


def test_an_arm_is_drawn_with_the_inverse_of_its_gap() -> None:
    policy = taught()
    values = policy.estimate(X).values
    gaps = (values[0] - values[1:]) / 2
    expected = 1 / (3 + 0.5 * np.sqrt(300) * gaps)
    drawn = shares(policy)
    assert [drawn["middle"], drawn["worst"]] == pytest.approx(expected.tolist(), abs=0.03)
    assert drawn["best"] == pytest.approx(1 - expected.sum(), abs=0.03)


def test_a_drawn_arm_that_is_not_eligible_gives_way_to_the_best_eligible_arm() -> None:
    policy = taught()
    before = shares(policy)["worst"]
    assert shares(policy, eligible=["middle", "worst"])["worst"] == pytest.approx(before, abs=0.03)


def test_without_gamma_all_arms_are_equally_likely() -> None:
    policy = SquareCB(["a", "b"], 1, gamma=0)
    for _ in range(50):
        policy.learn(X, "a", 1)
    assert shares(policy)["b"] == pytest.approx(0.5, abs=0.03)
