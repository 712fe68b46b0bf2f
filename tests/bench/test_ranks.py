"""Ranks, checked against the published tables, and rank tests, checked against SciPy and Demšar (2006)."""

import sys
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, rankdata

from glcb._errors import MissingExtra
from glcb.bench import paper
from glcb.bench.plan import PAPER_POLICIES, PAPER_TASKS
from glcb.bench.ranks import (
    compare_ranks,
    critical_difference,
    friedman,
    indistinguishable,
    mean_ranks,
    ranks,
    standings,
)

# adult, census, covertype, statlog, financial, jester, wheel; and the mean
PUBLISHED: dict[str, tuple[tuple[int, ...], float]] = {
    "glcb-paper": ((1, 1, 5, 1, 2, 4, 2), 2.29),
    "bootrms": ((2, 2, 1, 3, 4, 1, 8), 3.00),
    "dropout": ((3, 3, 4, 6, 6, 2, 5), 4.14),
    "linfullpost": ((5, 8, 6, 5, 1, 6, 1), 4.57),
    "neurallinear": ((7, 5, 7, 2, 3, 7, 3), 4.86),
    "rms": ((4, 4, 3, 7, 5, 3, 9), 5.00),
    "bbb": ((6, 7, 2, 4, 8, 5, 6), 5.43),
    "paramnoise": ((8, 6, 8, 8, 7, 10, 4), 7.29),
    "constsgd": ((9, 9, 9, 9, 9, 8, 6), 8.43),
    "bbalphadiv": ((10, 10, 10, 10, 10, 9, 10), 9.86),
}
"""The table of ranks in the main text of the paper."""


def test_equal_scores_share_the_better_rank_and_skip_the_next() -> None:
    assert ranks({"a": 5.0, "b": 7.0, "c": 5.0, "d": 4.0}) == {"b": 1, "a": 2, "c": 2, "d": 4}


def test_the_published_ranks_follow_from_the_published_rewards() -> None:
    scores = {
        task: {policy: rewards[task].mean for policy, rewards in paper.REWARDS.items()}
        for task in PAPER_TASKS
    }
    found = standings(scores)
    for own in found:
        ranks, mean = PUBLISHED[own.contestant]
        assert tuple(own.ranks[task] for task in PAPER_TASKS) == ranks
        assert own.mean == pytest.approx(mean, abs=0.005)
    assert [own.contestant for own in found] == list(PAPER_POLICIES)


def test_the_paper_preset_matches_the_published_tables() -> None:
    assert set(paper.REWARDS) == set(PUBLISHED) == set(PAPER_POLICIES)
    assert all(tuple(row) == PAPER_TASKS for row in paper.REWARDS.values())
    assert paper.steps("financial") == 3713
    assert paper.steps("wheel") == 5000


def test_an_incomplete_contestant_is_ranked_after_complete_ones() -> None:
    found = standings({"x": {"a": 9.0, "b": 1.0}, "y": {"b": 5.0, "c": 6.0}, "z": {"b": 2.0}})
    assert [own.contestant for own in found] == ["b", "a", "c"]
    assert [own.complete for own in found] == [True, False, False]
    assert found[0].ranks == {"x": 2, "y": 2, "z": 1}
    assert found[1].ranks == {"x": 1}
    assert np.isclose(found[0].mean, 5 / 3)


def test_equal_scores_share_the_mean_of_their_ranks() -> None:
    rng = np.random.default_rng(10_005)
    for _ in range(20):
        scores = rng.integers(0, 4, 9).astype(float)
        assert list(mean_ranks(dict(enumerate(scores))).values()) == rankdata(-scores).tolist()
    found = standings({"x": {"a": 2.0, "b": 2.0, "c": 1.0}}, ties="mean")
    assert [own.ranks["x"] for own in found] == [1.5, 1.5, 3.0]


# Table 5a of Demšar (2006), the two-tailed Nemenyi test at the 5% level for 2 to 10 contestants.
CRITICAL_VALUES = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)


@pytest.mark.parametrize(("contestants", "q"), list(enumerate(CRITICAL_VALUES, start=2)))
def test_the_critical_difference_matches_the_published_critical_values(contestants: int, q: float) -> None:
    expected = q * np.sqrt(contestants * (contestants + 1) / (6 * 26))
    assert critical_difference(contestants, 26) == pytest.approx(expected, rel=6e-4)


def test_the_friedman_test_matches_scipy_with_and_without_ties() -> None:
    rng = np.random.default_rng(10_006)
    for scores in (rng.normal(size=(8, 5)), rng.integers(0, 4, (8, 5)).astype(float)):
        ranked = [rankdata(-row).tolist() for row in scores]
        assert friedman(ranked) == pytest.approx(friedmanchisquare(*scores.T).pvalue)
    assert friedman([[1.5, 1.5], [1.5, 1.5]]) == 1.0


def test_groups_are_the_largest_runs_of_ranks_within_the_critical_difference() -> None:
    rng = np.random.default_rng(10_007)
    for _ in range(50):
        means = dict(enumerate(rng.uniform(1, 8, 8)))
        groups = [set(group) for group in indistinguishable(means, 1.5)]
        for one, other in combinations(means, 2):
            together = any({one, other} <= group for group in groups)
            assert together == (abs(means[one] - means[other]) < 1.5)
        assert not any(one < other for one in groups for other in groups)


def test_only_contestants_with_all_scores_are_compared() -> None:
    scores = {task: {"a": 3.0, "b": 2.0, "c": 1.0} for task in range(6)}
    scores[7] = {"a": 3.0, "b": 4.0}
    compared = compare_ranks(scores)
    assert compared is not None
    assert compared.means == {"a": pytest.approx(8 / 7), "b": pytest.approx(13 / 7)}
    assert compared.tasks == 7
    assert compared.critical_difference == pytest.approx(1.960 / np.sqrt(7), rel=1e-3)
    assert compared.groups == [["a", "b"]]
    assert compared.p_value == pytest.approx(0.0588, abs=1e-3)  # chi-square 25 / 7 with one degree of freedom
    assert compare_ranks({"x": {"a": 1.0, "b": 2.0}}) is None
    assert compare_ranks({"x": {"a": 1.0}, "y": {"b": 2.0}}) is None


def test_without_scipy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(MissingExtra, match=r"SciPy: pip install '\.\[report\]'"):
        critical_difference(3, 5)
