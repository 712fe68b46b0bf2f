"""Estimators for rankings."""

from itertools import permutations

import numpy as np

from glcb.evaluate.estimators import SlotRows

ARMS, SLOTS = 4, 2
LOGGED = np.array([0.4, 0.3, 0.2, 0.1])
TARGET = np.array([0.1, 0.2, 0.3, 0.4])


def conditional(weights: np.ndarray, ranking: tuple[int, ...]) -> list[float]:
    """Return the probability of each slot, drawn without replacement in proportion to the weights."""
    left, result = 1.0, []
    for arm in ranking:
        result.append(float(weights[arm] / left))
        left -= float(weights[arm])
    return result


def rewards(ranking: tuple[int, ...]) -> list[float]:
    """Return the reward of each slot, which depends on the slot above it."""
    first, second = ranking
    return [0.2 * first, 0.1 * second + 0.3 * (first == 0)]


RANKINGS = list(permutations(range(ARMS), SLOTS))


def value(weights: np.ndarray) -> float:
    return sum(float(np.prod(conditional(weights, own))) * sum(rewards(own)) for own in RANKINGS)


def sample(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shares = [float(np.prod(conditional(LOGGED, own))) for own in RANKINGS]
    drawn = [RANKINGS[i] for i in rng.choice(len(RANKINGS), count, p=shares)]
    return (
        np.array([rewards(own) for own in drawn]),
        np.array([conditional(LOGGED, own) for own in drawn]),
        np.array([conditional(TARGET, own) for own in drawn]),
    )


def test_both_estimators_are_unbiased_and_interaction_ips_is_more_precise() -> None:
    observed, logged, target = sample(40_000, 0)
    whole = observed.sum(axis=1) * np.prod(target / logged, axis=1)
    slots = SlotRows(observed, logged, target[..., None]).reward_interaction()[:, 0]
    for terms in (whole, slots):
        assert abs(terms.mean() - value(TARGET)) < 4 * terms.std() / np.sqrt(terms.size)
    assert slots.std() < whole.std()


def test_independent_ips_is_unbiased_only_without_interaction() -> None:
    marginal_logged, marginal_target = (
        np.array(
            [
                [
                    sum(float(np.prod(conditional(weights, own))) for own in RANKINGS if own[slot] == arm)
                    for arm in range(ARMS)
                ]
                for slot in range(SLOTS)
            ]
        )
        for weights in (LOGGED, TARGET)
    )
    rng = np.random.default_rng(1)
    shares = [float(np.prod(conditional(LOGGED, own))) for own in RANKINGS]
    drawn = np.array([RANKINGS[i] for i in rng.choice(len(RANKINGS), 40_000, p=shares)])
    slots, nothing = np.arange(SLOTS), np.zeros((len(drawn), SLOTS, 1))
    marginals = marginal_logged[slots, drawn], marginal_target[slots, drawn][..., None]
    terms = SlotRows(0.1 * drawn, nothing[..., 0], nothing, *marginals).independent()[:, 0]
    truth = sum(float(np.prod(conditional(TARGET, own))) * 0.1 * sum(own) for own in RANKINGS)
    assert abs(terms.mean() - truth) < 4 * terms.std() / np.sqrt(terms.size)
