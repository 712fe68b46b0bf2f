"""Rankings: exact propensities of every slot, and the rewards of slots."""

from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, ClosedDecision, DuplicateReward, InvalidInput, UnknownArm
from glcb.bandit import recorded
from glcb.bandit.ranking import draw_slots
from glcb.explore.choice import ChoiceRule
from glcb.policies import Estimates
from tests.support.bandits import counts_of

ARMS = ["a", "b", "c", "d"]
CONTEXT = {"age": 3}


def estimates(scores: Any) -> Estimates:
    values = np.array(scores, float)
    return Estimates(values, np.zeros(values.size), np.ones(values.size))


@pytest.mark.parametrize("scores", [[0.1, 0.9, 0.5, 0.3], [0.5, 0.5, 0.1, 0.5]])
@pytest.mark.parametrize("mode", ["gap", "uniform"])
def test_stated_propensities_are_the_observed_frequencies(scores: list[float], mode: Any) -> None:
    rng, draws, slots = np.random.default_rng(0), 20_000, 3
    rule = ChoiceRule(0.4, mode, uniform=False, focused=True)
    observed: Counter[tuple[int, ...]] = Counter()
    stated: dict[tuple[int, ...], float] = {}
    for _ in range(draws):
        drawn = draw_slots(lambda _: estimates(scores), None, slots, rule, lambda _: rng.random())
        order = tuple(slot.chosen for slot in drawn)
        observed[order] += 1
        stated[order] = float(np.prod([slot.propensity for slot in drawn]))
    assert set(stated) <= set(permutations(range(4), slots))
    expected = np.array(list(stated.values())) * draws
    counts = np.array([observed[order] for order in stated])
    assert expected.sum() == pytest.approx(draws, rel=1e-3)  # orders that were never drawn are rare
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < len(stated) + 4 * np.sqrt(2 * len(stated))


def test_no_arm_is_drawn_twice_and_conditional_probabilities_add_up() -> None:
    ranking = Bandit(ARMS).rank(CONTEXT, k=4)
    assert sorted(ranking.arms) == ARMS
    for slot, probabilities in enumerate(ranking.slot_probabilities):
        assert probabilities.sum() == pytest.approx(1)
        above = [ranking.candidates.index(arm) for arm in ranking.arms[:slot]]
        assert (probabilities[above] == 0).all()
    assert ranking.propensities[-1] == 1


def test_a_decision_is_a_ranking_with_one_slot() -> None:
    one, other = Bandit(ARMS, exploration=0.3), Bandit(ARMS, exploration=0.3)
    for step in range(30):
        decision, ranking = one.decide({"age": step}), other.rank({"age": step}, k=1)
        assert (decision.arm, decision.propensity) == (ranking.arms[0], ranking.propensities[0])
        one.reward(decision.id, step % 2)
        other.reward(ranking.id, step % 2, slot=0)


def test_eligible_arms_restrict_a_ranking() -> None:
    ranking = Bandit(ARMS).rank(CONTEXT, k=2, eligible=["b", "d"])
    assert set(ranking.arms) == {"b", "d"}
    with pytest.raises(InvalidInput, match="which is 2"):
        Bandit(ARMS).rank(CONTEXT, k=3, eligible=["b", "d"])


def test_examined_slots_are_learned_and_others_are_not() -> None:
    bandit = Bandit(ARMS)
    ranking = bandit.rank(CONTEXT, k=4)
    assert bandit.reward(ranking.id, 1, slot=1, examined=3)
    assert bandit.reward_counts == {arm: int(arm in ranking.arms[:3]) for arm in ARMS}
    assert bandit.counts["rewarded"] == 3
    assert bandit.counts["removed"] == 1
    with pytest.raises(ClosedDecision, match="not examined"):
        bandit.reward(ranking.id, 1, slot=3)


def test_a_reward_without_a_slot_is_that_of_every_slot() -> None:
    bandit = Bandit(ARMS, rewards=(0, 10))
    learned: list[tuple[str, Any, float]] = []
    bandit.on_reward(lambda *event: learned.append(event))
    ranking = bandit.rank(CONTEXT, k=3)
    bandit.reward(ranking.id, 7, slot=1)
    bandit.reward(ranking.id, 4)
    assert [(arm, value) for _, arm, value in learned] == [
        (ranking.arms[1], 7),
        (ranking.arms[0], 4),
        (ranking.arms[2], 4),
    ]


def test_rewards_of_slots_are_checked() -> None:
    bandit = Bandit(ARMS)
    ranking = bandit.rank(CONTEXT, k=2)
    with pytest.raises(InvalidInput, match="slot must be an integer from 0 to 1"):
        bandit.reward(ranking.id, 1, slot=2)
    with pytest.raises(InvalidInput, match="examined must be at least 2"):
        bandit.reward(ranking.id, 1, slot=1, examined=1)
    assert bandit.counts["pending"] == 2
    assert bandit.reward(ranking.id, 1, slot=1, idempotency_key="k")
    assert not bandit.reward(ranking.id, 1, slot=1, idempotency_key="k")
    with pytest.raises(DuplicateReward):
        bandit.reward(ranking.id, 1, slot=1)


def test_slots_time_out_with_the_default_reward() -> None:
    time = [0.0]
    bandit = Bandit(ARMS, reward_timeout=10, default_reward=0, clock=lambda: time[0])
    ranking = bandit.rank(CONTEXT, k=3)
    bandit.reward(ranking.id, 1, slot=2)
    time[0] = 20.0
    bandit.settle()
    assert bandit.counts == counts_of(decisions=3, rewarded=1, timed_out=2)


def test_the_position_is_a_feature() -> None:
    bandit = Bandit(ARMS, slots=2, exploration=0.5)
    for _ in range(150):
        ranking = bandit.rank(CONTEXT, k=2)
        bandit.reward(ranking.id, 1, slot=0)
        bandit.reward(ranking.id, 0, slot=1)
    top, below = bandit.rank(CONTEXT, k=2).estimates
    assert top.values.min() > below.values.max()
    assert "position" in bandit.explain(CONTEXT).features
    with pytest.raises(InvalidInput, match="slots=2"):
        bandit.rank(CONTEXT, k=3)


def test_a_ranking_can_have_an_id_of_the_caller() -> None:
    bandit = Bandit(ARMS)
    assert bandit.rank(CONTEXT, k=2, id="page-7").id == "page-7"
    assert bandit.reward("page-7", 1, slot=1)


def test_a_ranking_is_completed_in_steps() -> None:
    bandit = Bandit(ARMS)
    ranking = bandit.rank(CONTEXT, k=4)
    assert bandit.reward(ranking.id, 1, slot=0)
    assert recorded.affected_slots(bandit, ranking.id, examined=3) == ((1, 2), (), (3,))
    assert recorded.affected_slots(bandit, ranking.id, slot=1, examined=3) == ((1,), (2,), (3,))
    assert bandit.reward(ranking.id, 0, idempotency_key="rest")  # that of all slots without a reward
    assert bandit.counts["rewarded"] == 4
    assert not bandit.reward(ranking.id, 0, idempotency_key="rest")
    with pytest.raises(DuplicateReward):
        bandit.reward(ranking.id, 0)


def test_a_repeated_reward_does_not_complete_a_ranking() -> None:
    bandit = Bandit(ARMS)
    ranking = bandit.rank(CONTEXT, k=3)
    assert bandit.reward(ranking.id, 1, slot=1, idempotency_key="click")
    assert not bandit.reward(ranking.id, 1, slot=1, examined=3, idempotency_key="click")
    assert bandit.counts["pending"] == 2
    assert bandit.reward(ranking.id, 0, examined=0)  # nothing was seen
    assert bandit.counts["removed"] == 2


def test_only_eligible_arms_can_be_served() -> None:
    bandit = Bandit(ARMS)
    served = ARMS[0]
    with pytest.raises(UnknownArm, match="serve must have eligible arms"):
        bandit.decide(CONTEXT, eligible=ARMS[1:], serve=served)
    with pytest.raises(UnknownArm, match="serve must have eligible arms"):
        bandit.rank(CONTEXT, k=2, eligible=ARMS[1:], serve=[served])
    with pytest.raises(InvalidInput, match="at most 2 different arms"):
        bandit.rank(CONTEXT, k=2, serve=[served, served])
    assert bandit.counts["decisions"] == 0
    assert bandit.decide(CONTEXT, serve=served).propensity == 1
