"""Many contexts in one call give the same result as one by one."""

import copy

import numpy as np
import pytest

from glcb import GLCB, UCB1, Policy
from tests.policies.cases import (
    ARMS,
    FEATURES,
    POLICIES,
    REPRESENTATIVES,
    REWARD_KINDS,
    full_state,
    reward,
    trained,
)

CONTEXTS = np.random.default_rng(7).random((100, FEATURES))
OVERRIDING = [name for name, policy in POLICIES.items() if policy._estimate_many is not Policy._estimate_many]


@pytest.fixture(
    params=[
        *((name, kind) for name in OVERRIDING for kind in REWARD_KINDS),
        *((name, "binary") for name in REPRESENTATIVES if name not in OVERRIDING),
        ("lints", "binary"),  # draws random numbers for every context
    ],
    ids="-".join,
)
def policy(request: pytest.FixtureRequest) -> Policy:
    name, kind = request.param
    return trained(POLICIES[name](ARMS, FEATURES, rewards=REWARD_KINDS[kind]), 40)


def test_only_glcb_has_its_own_way_to_estimate_many_contexts() -> None:
    assert set(OVERRIDING) == {"glcb", "glcb-paper"}


@pytest.mark.parametrize("eligible", [None, ["green", "gray"]])
def test_deciding_many_is_the_same_as_deciding_one_by_one(policy: Policy, eligible: list[str] | None) -> None:
    twin = copy.deepcopy(policy)
    for decision, x in zip(policy.decide_many(CONTEXTS, eligible=eligible), CONTEXTS, strict=True):
        alone = twin.decide(x, eligible=eligible)
        assert decision.arm == alone.arm
        np.testing.assert_array_equal(decision.values, alone.values)
        np.testing.assert_array_equal(decision.bonuses, alone.bonuses)
        np.testing.assert_array_equal(decision.pseudocounts, alone.pseudocounts)
    assert full_state(policy) == full_state(twin)


def test_learning_many_is_the_same_as_learning_one_by_one(policy: Policy) -> None:
    twin, rng = copy.deepcopy(policy), np.random.default_rng(1)
    rows = CONTEXTS[:20]
    arms = [ARMS[i] for i in rng.integers(0, len(ARMS), len(rows))]
    rewards = [reward(policy, rng) for _ in rows]
    policy.learn_many(rows, arms, rewards)
    for x, arm, value in zip(rows, arms, rewards, strict=True):
        twin.learn(x, arm, value)
    assert full_state(policy) == full_state(twin)


@pytest.mark.parametrize("kind", REWARD_KINDS)
@pytest.mark.parametrize("rows", [1, 5, 600])
def test_threads_give_the_same_scores_as_one_thread(kind: str, rows: int) -> None:
    policy = trained(GLCB(ARMS, 20, rewards=REWARD_KINDS[kind]), 60)
    contexts = np.random.default_rng(rows).random((rows, 20))
    for decision, x in zip(policy.decide_many(contexts), contexts, strict=True):
        np.testing.assert_array_equal(decision.scores, policy.decide(x).scores)


@pytest.mark.parametrize("kind", [GLCB, UCB1])
def test_no_contexts_give_no_decisions_and_no_updates(kind: type[Policy]) -> None:
    policy = kind(ARMS, FEATURES)
    assert policy.decide_many([]) == []
    assert policy.decide_many(np.empty((0, FEATURES))) == []
    policy.learn_many(np.empty((0, FEATURES)), [], [])
    assert policy.updates == 0
