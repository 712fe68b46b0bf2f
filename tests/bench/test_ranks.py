"""Ranks, checked against the published tables."""

import numpy as np
import pytest

from glcb.bench import paper
from glcb.bench.plan import PAPER_POLICIES, PAPER_TASKS
from glcb.bench.ranks import ranks, standings

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
