"""Estimators of the value of a policy."""

import numpy as np
import pytest

from glcb.evaluate import estimators as est

RNG = np.random.default_rng(5)
ROWS, POLICIES = 400, 3


def rows(count: int = ROWS) -> est.Rows:
    reward = RNG.random((count, 1))
    weight = RNG.exponential(1.0, (count, POLICIES))
    return est.Rows(reward, weight, RNG.random((count, POLICIES)), RNG.random((count, POLICIES)))


def accumulate(name: str, data: est.Rows, parts: int = 4) -> est.EstimateSums:
    sums = est.EstimateSums(name, POLICIES)
    for part in np.array_split(np.arange(len(data.reward)), parts):
        reward, weight, predicted, expected = (column[part] for column in data[:4])
        sums.add(sums.terms(est.Rows(reward, weight, predicted, expected)))
    return sums


@pytest.mark.parametrize("name", est.NAMES)
def test_sums_over_parts_equal_the_formula_on_all_rows(name: str) -> None:
    data = rows()
    sums = accumulate(name, data)
    if name == "snips":
        expected = (data.weight * data.reward).sum(axis=0) / data.weight.sum(axis=0)
    else:
        expected = {**est.WEIGHTED, **est.MODELED}[name](data).mean(axis=0)
    assert sums.estimates() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", est.NAMES)
def test_standard_errors_match_the_spread_over_repeated_samples(name: str) -> None:
    many = [accumulate(name, rows(), parts=1) for _ in range(400)]
    for found in ([sums.estimate(1) for sums in many], [sums.difference(1, 2) for sums in many]):
        spread = np.std([own.value for own in found])
        assert np.mean([own.error for own in found]) == pytest.approx(spread, rel=0.12)


def test_paired_differences_are_more_precise_than_independent_ones() -> None:
    data = rows()
    alike = data._replace(weight=data.weight[:, :1] + 0.01 * data.weight)
    sums = accumulate("ips", alike)
    assert sums.difference(0, 1).error < 0.1 * sums.estimate(0).error


def test_one_row_has_no_standard_error() -> None:
    assert accumulate("dr", rows(1), parts=1).estimate(0).error == np.inf


def test_a_policy_that_never_matches_has_the_value_zero_and_no_warning() -> None:
    data = rows()._replace(weight=np.zeros((ROWS, POLICIES)))
    assert accumulate("snips", data).estimate(0) == (0.0, 0.0)


def test_large_weights_are_tamed_in_the_stated_way() -> None:
    reward, weight = np.array([1.0, 1.0]), np.array([2.0, 40.0])
    predicted, expected = np.array([0.5, 0.5]), np.array([0.5, 0.5])
    assert est.clipped_ips(reward, weight, 10).tolist() == [2.0, 10.0]
    assert est.switch_dr(reward, weight, predicted, expected, 10).tolist() == [1.5, 0.5]
    shrunk = 100 * weight / (weight**2 + 100)
    assert est.shrunk_dr(reward, weight, predicted, expected, 10) == pytest.approx(0.5 + shrunk * 0.5)


STORED = {
    "ips": 0.478628183819149,
    "snips": 0.4466504435352766,
    "dm": 0.490628590588772,
    "dr": 0.33490669381472893,
    "switch-dr": 0.33490669381472893,
    "shrunk-dr": 0.3401598155076895,
}
"""What Open Bandit Pipeline 0.4.1 (``obp``) returns for the rows of the test below."""


def shares(first: int, second: int, modulus: int) -> np.ndarray:
    raw = 1.0 + (first * np.arange(40)[:, None] + second * np.arange(4)) % modulus
    result: np.ndarray = raw / raw.sum(axis=1, keepdims=True)
    return result


@pytest.mark.parametrize("name", STORED)
def test_estimates_equal_those_of_the_open_bandit_pipeline(name: str) -> None:
    row = np.arange(40)
    target, logged = shares(7, 11, 13), shares(5, 3, 7)
    action = (3 * row + row // 4) % 4
    reward = (11 * row % 17) / 16
    model = ((13 * row[:, None] + 5 * np.arange(4)) % 19) / 18
    weight = target[row, action] / logged[row, action]
    expected = (target * model).sum(axis=1)
    reward, weight, predicted, expected = (
        column[:, None] for column in (reward, weight, model[row, action], expected)
    )
    data = est.Rows(reward, weight, predicted, expected)
    sums = est.EstimateSums(name, 1)
    sums.add(sums.terms(data))
    assert sums.estimates()[0] == pytest.approx(STORED[name], abs=1e-9)
