"""Confidence sequences."""

import numpy as np
import pytest

from glcb._arrays import Float64
from glcb.evaluate.robust import RobustSequence, robust_terms
from glcb.evaluate.sequences import BettingSequence, LowerSequence, boundaries, boundary

ERROR = 0.05


@pytest.mark.parametrize("kind", [LowerSequence, BettingSequence])
def test_rows_can_be_added_in_parts(kind: type[LowerSequence] | type[BettingSequence]) -> None:
    values = np.random.default_rng(1).exponential(0.5, (300, 2))
    whole, parts = kind(2), kind(2)
    whole.add(values)
    for part in np.array_split(values, 7):
        parts.add(part)
    assert parts.bounds(ERROR) == pytest.approx(whole.bounds(ERROR), rel=1e-9)


@pytest.mark.parametrize("kind", [LowerSequence, BettingSequence])
def test_the_bound_is_below_the_mean_at_all_times_in_most_runs(
    kind: type[LowerSequence] | type[BettingSequence],
) -> None:
    """Importance-weighted rewards with weights of up to 20; the bound is watched after every tenth row."""
    rng = np.random.default_rng(2)
    runs, rows, mean = 200, 300, 0.3
    sequence = kind(runs)
    missed = np.zeros(runs, np.bool_)
    for _ in range(rows // 10):
        weight = np.where(rng.random((10, runs)) < 0.05, 20.0, 0.0)
        sequence.add(weight * (rng.random((10, runs)) < mean))
        missed |= sequence.bounds(ERROR) > mean
    assert missed.mean() <= 2 * ERROR


def test_the_bound_follows_a_mean_that_moves() -> None:
    rng = np.random.default_rng(3)
    sequence, means = LowerSequence(1), np.linspace(0.1, 0.7, 4000)
    sequence.add((rng.random(4000) < means).astype(np.float64)[:, None])
    bound = float(sequence.bounds(ERROR)[0])
    assert 0.3 < bound < means.mean()


def test_without_rows_nothing_is_known() -> None:
    assert LowerSequence(2).bounds(ERROR).tolist() == [0.0, 0.0]
    assert BettingSequence(2).bounds(ERROR).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kind", [LowerSequence, BettingSequence])
def test_a_restored_sequence_continues(kind: type[LowerSequence] | type[BettingSequence]) -> None:
    values = np.random.default_rng(4).random((100, 2))
    first, second = kind(2), kind(2)
    first.add(values[:50])
    second.restore({name: array.copy() for name, array in first.snapshot().items()})
    first.add(values[50:])
    second.add(values[50:])
    assert second.bounds(ERROR).tolist() == first.bounds(ERROR).tolist()


def test_boundaries_of_several_sums_are_those_of_each() -> None:
    squares, scales = np.array([0.0, 3.0, 5000.0]), np.array([0.5, 1e-9, 40.0])
    pairs = zip(squares.tolist(), scales.tolist(), strict=True)
    assert boundaries(squares, scales, ERROR) == pytest.approx([boundary(*pair, ERROR) for pair in pairs])


# ---- doubly robust terms ----------------------------------------------------------------------------

LOGGED = np.array([0.85, 0.1, 0.05])
TARGET = np.array([0.1, 0.1, 0.8])
MEANS = np.array([0.3, 0.6, 0.7])


def model(count: int, quality: str) -> Float64:
    """Return predictions of the rewards: right, or wrong in a way that depends on the row."""
    rng = np.random.default_rng(6)
    return np.tile(MEANS, (count, 1)) if quality == "right" else rng.random((count, MEANS.size))


@pytest.mark.parametrize("quality", ["right", "wrong"])
@pytest.mark.parametrize("cap", [0.5, 3.0, 20.0])
def test_doubly_robust_terms_have_the_right_mean_and_a_lower_bound(quality: str, cap: float) -> None:
    predictions = model(50, quality)
    total = np.zeros(50)
    for arm, share in enumerate(LOGGED):
        for reward, chance in ((0.0, 1 - MEANS[arm]), (1.0, MEANS[arm])):
            terms = robust_terms(
                np.full(50, reward),
                np.full(50, arm),
                np.full(50, TARGET[arm] / share),
                np.tile(TARGET, (50, 1)),
                predictions,
                np.full(50, cap * LOGGED.min()),
            )
            assert terms.min() >= -cap
            total += share * chance * terms
    assert total == pytest.approx(np.full(50, TARGET @ MEANS), abs=1e-12)


def robust(rng: np.random.Generator, count: int, quality: str) -> tuple[np.ndarray, ...]:
    arm = rng.choice(LOGGED.size, count, p=LOGGED)
    reward = (rng.random(count) < MEANS[arm]).astype(np.float64)
    weight = np.column_stack([np.ones(count), (TARGET / LOGGED)[arm]])
    return reward, arm, weight, np.tile(TARGET, (count, 1)), model(count, quality)


def add(sequence: RobustSequence, rows: tuple[np.ndarray, ...], part: slice = slice(None)) -> None:
    reward, arm, weight, shares, predictions = (own[part] for own in rows)
    sequence.add(reward, arm, weight, [shares], predictions)


@pytest.mark.parametrize("quality", ["right", "wrong"])
def test_the_doubly_robust_sequence_covers_values_and_differences_at_all_times(quality: str) -> None:
    rng = np.random.default_rng(7)
    runs, missed = 100, 0
    value, difference = TARGET @ MEANS, (TARGET - LOGGED) @ MEANS
    for _ in range(runs):
        sequence = RobustSequence(2, 0, float(LOGGED.min()))
        inside = []
        for _ in range(8):
            add(sequence, robust(rng, 40, quality))
            low, high = sequence.bounds(ERROR / 2)
            lower, upper = sequence.difference_bounds(ERROR / 2)
            inside += [low[1] < value < high[1], lower[1] < difference < upper[1]]
        missed += not all(inside)
    assert missed <= 2 * 2 * ERROR * runs


def test_a_right_model_makes_the_sequence_narrower_than_that_of_ips() -> None:
    rows = robust(np.random.default_rng(8), 3000, "right")
    reward, weight = rows[0], rows[2]
    sequence, plain = RobustSequence(2, 0, float(LOGGED.min())), LowerSequence(2)
    add(sequence, rows)
    plain.add(np.column_stack([weight[:, 1] * reward, weight[:, 1] * (1 - reward)]))
    low, high = sequence.bounds(ERROR / 2)
    gain, loss = plain.bounds(ERROR / 2)
    assert high[1] - low[1] < 0.8 * (1 - loss - gain)


def test_the_doubly_robust_sequence_does_not_depend_on_how_rows_are_divided() -> None:
    rows = robust(np.random.default_rng(9), 200, "wrong")
    whole, parts = (RobustSequence(2, 0, float(LOGGED.min())) for _ in range(2))
    add(whole, rows)
    add(parts, rows, slice(70))
    resumed = RobustSequence(2, 0, float(LOGGED.min()))
    resumed.restore({name: array.copy() for name, array in parts.snapshot().items()})
    add(resumed, rows, slice(70, None))
    assert np.array(resumed.bounds(ERROR)) == pytest.approx(np.array(whole.bounds(ERROR)))
    assert np.array(resumed.difference_bounds(ERROR)) == pytest.approx(
        np.array(whole.difference_bounds(ERROR))
    )
