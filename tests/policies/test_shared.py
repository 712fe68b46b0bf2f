"""One policy for all arms: the estimates of candidates, and the corrections of single arms."""

from typing import Any

import numpy as np
import pytest

from glcb import GLCB, LinTS, LinUCB
from glcb._arrays import Float32
from glcb.policies.shared import Candidates, OwnCorrections, estimate_candidates, join
from glcb.policies.shared import estimate as estimate_module
from glcb.policies.shared.candidates import join_all
from glcb.policies.shared.own import BONUS, PRIOR_PRECISION

CONTEXT, ARM = 3, 4


def trained(policy_class: Any, rewards: Any = "binary", steps: int = 80, **settings: Any) -> Any:
    rng = np.random.default_rng(1)
    policy = policy_class(1, CONTEXT + ARM, rewards=rewards, seed=0, **settings)
    for _ in range(steps):
        joint = rng.random(CONTEXT + ARM).astype(np.float32)
        policy.learn(joint, 0, float(joint[0] > joint[CONTEXT]))
    return policy


def candidates(count: int, seed: int = 2) -> tuple[Float32, Candidates]:
    rng = np.random.default_rng(seed)
    return rng.random(CONTEXT).astype(np.float32), Candidates(rng.random((count, ARM)).astype(np.float32))


@pytest.mark.parametrize("rewards", ["binary", (0.0, 3.0)])
@pytest.mark.parametrize(
    "settings", [{}, {"experts": ()}, {"experts": ("linear",)}, {"layers": (8,), "bonus_unit": "reward"}]
)
def test_the_estimates_are_those_of_the_joint_vectors(rewards: Any, settings: dict[str, Any]) -> None:
    policy = trained(GLCB, rewards, **settings)
    x, arms = candidates(150)
    estimates = estimate_candidates(policy, x, arms)
    for index in range(len(arms)):
        alone = policy.estimate(join(x, arms, index))
        assert estimates.values[index] == pytest.approx(alone.values[0], abs=1e-5)
        assert estimates.bonuses[index] == pytest.approx(alone.bonuses[0], abs=1e-5)
        assert estimates.pseudocounts[index] == pytest.approx(alone.pseudocounts[0], abs=1e-9)


def test_an_untrained_policy_explores_all_candidates() -> None:
    x, arms = candidates(5)
    assert np.isinf(estimate_candidates(GLCB(1, CONTEXT + ARM), x, arms).bonuses).all()


def test_a_subset_of_candidates_has_the_same_estimates() -> None:
    policy = trained(GLCB)
    x, arms = candidates(40)
    everything = estimate_candidates(policy, x, arms)
    some = estimate_candidates(policy, x, arms.take([3, 17, 30]))
    assert some.values.tolist() == everything.values[[3, 17, 30]].tolist()
    assert some.bonuses.tolist() == everything.bonuses[[3, 17, 30]].tolist()


@pytest.mark.parametrize("rewards", ["binary", (0.0, 3.0)])
def test_a_shortlist_has_the_estimates_of_the_networks(rewards: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = trained(GLCB, rewards)
    x, arms = candidates(300)
    full = estimate_candidates(policy, x, arms)
    monkeypatch.setattr(estimate_module, "MAX_NETWORKS", 0)
    monkeypatch.setattr(estimate_module, "MIN_SHORTLIST", 20)
    short = estimate_candidates(policy, x, arms)
    same = np.isclose(short.values, full.values, atol=1e-9)
    assert 20 <= same.sum() < 300
    assert np.isfinite(short.bonuses).all()
    assert np.abs(short.values - full.values).max() < 0.6 * (1 if rewards == "binary" else 3)


def test_linucb_scores_candidates_like_joint_vectors() -> None:
    policy = trained(LinUCB)
    x, arms = candidates(6)
    estimates = estimate_candidates(policy, x, arms)
    for index, joint in enumerate(join_all(x, arms)):
        alone = policy.estimate(joint)
        assert estimates.values[index] == pytest.approx(alone.values[0])
        assert estimates.bonuses[index] == pytest.approx(alone.bonuses[0])
        assert estimates.pseudocounts[index] == pytest.approx(alone.pseudocounts[0])


def test_lints_draws_the_shared_weights_once() -> None:
    policy = trained(LinTS)
    x, arms = candidates(2)
    twice = Candidates(np.repeat(arms.features[:1], 2, axis=0))
    bonuses = estimate_candidates(policy, x, twice).bonuses
    assert bonuses[0] == bonuses[1]
    draws = np.array([estimate_candidates(policy, x, arms).bonuses[0] for _ in range(2000)])
    z = np.append(join(x, arms, 0), 1.0)
    expected = policy.posterior_scale * np.sqrt(z @ policy._inverses[0] @ z)
    assert draws.std() == pytest.approx(expected, rel=0.1)


# ---- corrections of single arms ---------------------------------------------------------------------


def corrected(own: OwnCorrections, x: Float32, arm: Any, value: float) -> float:
    from glcb.policies import Estimates

    one = Estimates(np.array([value]), np.zeros(1), np.ones(1))
    return float(own.correct(x, (arm,), one).values[0])


def test_an_arm_learns_what_the_shared_value_misses() -> None:
    own, rng = OwnCorrections(2), np.random.default_rng(0)
    for _ in range(300):
        x = rng.random(2).astype(np.float32)
        own.learn(x, "good", float(x[0] > 0.5), 0.5)
    low, top = np.array([0.1, 0.5], np.float32), np.array([0.9, 0.5], np.float32)
    assert corrected(own, top, "good", 0.5) > 0.75
    assert corrected(own, low, "good", 0.5) < 0.25
    assert corrected(own, top, "unknown", 0.5) == 0.5
    assert own.shares["own"] > 0.8


def test_corrections_are_not_trusted_if_the_shared_value_is_right() -> None:
    own, rng = OwnCorrections(2), np.random.default_rng(0)
    for step in range(300):
        x = rng.random(2).astype(np.float32)
        own.learn(x, f"arm {step % 100}", float(rng.random() < 0.9), 0.9)
    assert own.shares["shared"] > 0.5


def test_the_least_recent_correction_is_dropped() -> None:
    own = OwnCorrections(2)
    own.capacity = 3
    x = np.array([0.2, 0.7], np.float32)
    for arm in ("a", "b", "c", "a", "d"):
        own.learn(x, arm, 1.0, 0.5)
    assert own.arms == 3
    assert corrected(own, x, "b", 0.5) == 0.5
    assert corrected(own, x, "a", 0.5) > 0.5


def own_bonuses(own: OwnCorrections, arms: tuple[Any, ...], value: float = 0.5) -> list[float]:
    from glcb.policies import Estimates

    x, same = np.array([0.2, 0.7], np.float32), np.full(len(arms), value)
    bonuses: list[float] = own.correct(x, arms, Estimates(same, np.zeros(len(arms)), same)).bonuses.tolist()
    return bonuses


def test_an_arm_with_few_decisions_of_its_own_has_a_bonus() -> None:
    own = OwnCorrections(2)
    for arm, decisions in (("often", 400), ("seldom", 20)):
        for _ in range(decisions):
            own.count_decision(arm)
    often, seldom, never = own_bonuses(own, ("often", "seldom", "never"))
    assert never == pytest.approx(0.5 * BONUS * 0.25 / np.sqrt(PRIOR_PRECISION))
    assert 0 < 2.5 * often < seldom < never
    own.forget()
    assert often < own_bonuses(own, ("often",))[0] < seldom
    assert own_bonuses(own, ("never",), value=0.02)[0] < 0.1 * never, "a click rate varies less"


def test_an_arm_has_no_bonus_of_its_own_if_the_shared_value_is_right() -> None:
    own, rng = OwnCorrections(2), np.random.default_rng(0)
    untrained = own_bonuses(own, ("new",))[0]
    for step in range(3000):
        x = rng.random(2).astype(np.float32)
        own.learn(x, step % 10, float(rng.random() < 0.5), 0.5)
    assert own_bonuses(own, ("new",))[0] == pytest.approx(2 * untrained * own.shares["own"])
    assert own.shares["own"] < 0.4


def test_restored_corrections_continue_exactly() -> None:
    own, rng = OwnCorrections(2), np.random.default_rng(0)
    own.capacity = 4
    data = [
        (rng.random(2).astype(np.float32), int(rng.integers(6)), float(rng.integers(2))) for _ in range(40)
    ]
    for x, arm, reward in data[:20]:
        own.count_decision(arm)
        own.learn(x, arm, reward, 0.4)
    metadata, arrays = own.snapshot()
    restored = OwnCorrections(2)
    restored.capacity = 4
    restored.restore(metadata, {name: array.copy() for name, array in arrays.items()})
    for x, arm, reward in data[20:]:
        for each in (own, restored):
            each.count_decision(arm)
            each.learn(x, arm, reward, 0.4)
    assert own.snapshot()[0] == restored.snapshot()[0]
    for name, array in own.snapshot()[1].items():
        assert array.tobytes() == restored.snapshot()[1][name].tobytes()
    with pytest.raises(ValueError, match="weights must be float64"):
        restored.restore({"arms": ["a"], "decisions": []}, arrays)
    with pytest.raises(ValueError, match="the decisions of arms"):
        restored.restore({**metadata, "decisions": [["a", 1], ["a", 2]]}, arrays)


def test_contributions_to_corrected_values_add_up() -> None:
    own, rng = OwnCorrections(2), np.random.default_rng(0)
    for _ in range(50):
        own.learn(rng.random(2).astype(np.float32), "a", float(rng.integers(2)), 0.3)
    ends = np.array([[0.9, 0.2], [0.5, 0.5]], np.float32)
    values, parts = np.array([0.6, 0.4]), np.array([0.15, -0.05, 0.1])
    totals, contributions = own.contributions("a", ends, values, parts)
    assert totals[0] - totals[1] == pytest.approx(contributions.sum())
    assert totals[0] == pytest.approx(corrected(own, ends[0], "a", float(values[0])))
    same, untouched = own.contributions("unknown", ends, values, parts)
    assert same is values
    assert untouched is parts
