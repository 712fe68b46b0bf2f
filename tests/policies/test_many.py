"""Many at once is the same as one after the other, for every policy of the registry."""

import copy

import numpy as np
import pytest

from glcb import GLCB, GlcbError, InvalidContext, InvalidInput, InvalidReward, Policy, UnknownArm
from tests.policies.everyone import ARMS, FEATURES, KINDS, POLICIES, everything, reward, trained

CONTEXTS = np.random.default_rng(7).random((100, FEATURES))


@pytest.fixture(params=[(name, kind) for name in POLICIES for kind in KINDS], ids="-".join)
def policy(request: pytest.FixtureRequest) -> Policy:
    name, kind = request.param
    return trained(POLICIES[name](ARMS, FEATURES, rewards=KINDS[kind]), 40)


@pytest.mark.parametrize("eligible", [None, ["green", "gray"]])
def test_deciding_many(policy: Policy, eligible: list[str] | None) -> None:
    twin = copy.deepcopy(policy)
    together = policy.decide_many(CONTEXTS, eligible=eligible)
    for one, x in zip(together, CONTEXTS, strict=True):
        alone = twin.decide(x, eligible=eligible)
        assert one.arm == alone.arm
        np.testing.assert_array_equal(one.values, alone.values)
        np.testing.assert_array_equal(one.bonuses, alone.bonuses)
        np.testing.assert_array_equal(one.pseudocounts, alone.pseudocounts)
    assert everything(policy) == everything(twin)


def test_learning_many(policy: Policy) -> None:
    twin, rng = copy.deepcopy(policy), np.random.default_rng(1)
    rows = CONTEXTS[:20]
    arms = [ARMS[i] for i in rng.integers(0, len(ARMS), len(rows))]
    rewards = [reward(policy, rng) for _ in rows]
    policy.learn_many(rows, arms, rewards)
    for x, arm, value in zip(rows, arms, rewards, strict=True):
        twin.learn(x, arm, value)
    assert everything(policy) == everything(twin)


@pytest.mark.parametrize(
    ("contexts", "arms", "rewards", "error"),
    [
        ([[0.5] * 3, [0.5, 2.0, 0.5]], ["red", "red"], [1, 1], InvalidContext),
        ([[0.5] * 3, [0.5, float("nan"), 0.5]], ["red", "red"], [1, 1], InvalidContext),
        ([0.5] * 3, ["red"] * 3, [1] * 3, InvalidContext),
        ([[0.5] * 4], ["red"], [1], InvalidContext),
        ([["a"] * 3], ["red"], [1], InvalidContext),
        ([[0.5] * 3] * 2, ["red"], [1, 1], InvalidInput),
        ([[0.5] * 3] * 2, ["red", "pink"], [1, 1], UnknownArm),
        ([[0.5] * 3] * 2, ["red", "red"], [1, 7], InvalidReward),
    ],
)
def test_one_bad_row_and_nothing_is_learned(
    contexts: list[list[float]], arms: list[str], rewards: list[float], error: type[GlcbError]
) -> None:
    bandit = trained(GLCB(ARMS, FEATURES), 20)
    before = everything(bandit)
    with pytest.raises(error):
        bandit.learn_many(contexts, arms, rewards)
    assert everything(bandit) == before


def test_the_message_names_the_row() -> None:
    with pytest.raises(InvalidContext, match="feature 1 of context 1 "):
        GLCB(ARMS, FEATURES).decide_many([[0.5] * 3, [0.5, -1, 0.5]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 5, 600])
def test_few_and_many_wide_contexts(kind: str, rows: int) -> None:
    bandit = trained(GLCB(ARMS, 20, rewards=KINDS[kind]), 60)
    contexts = np.random.default_rng(rows).random((rows, 20))
    for one, x in zip(bandit.decide_many(contexts), contexts, strict=True):
        np.testing.assert_array_equal(one.scores, bandit.decide(x).scores)


@pytest.mark.parametrize("arms", [None, "red", {"red": 1}, 3, (arm for arm in ["red", "green"])])
def test_arms_that_are_no_list_of_the_same_length_are_refused(arms: object) -> None:
    with pytest.raises(InvalidInput):
        GLCB(ARMS, FEATURES).learn_many([[0.5] * 3], arms, [1])  # type: ignore[arg-type]


def test_none_at_all() -> None:
    bandit = GLCB(ARMS, FEATURES)
    assert bandit.decide_many([]) == []
    assert bandit.decide_many(np.empty((0, FEATURES))) == []
    bandit.learn_many(np.empty((0, FEATURES)), [], [])
    assert bandit.updates == 0
