"""Ranks, and the paper's own tables as the known case."""

import numpy as np
import pytest

from glcb.bench import paper
from glcb.bench.experiment import PAPER_POLICIES, PAPER_TASKS
from glcb.bench.ranks import ranks, standings


def test_equal_scores_share_the_better_rank_and_the_next_is_left_out() -> None:
    assert ranks({"a": 5.0, "b": 7.0, "c": 5.0, "d": 4.0}) == {"b": 1, "a": 2, "c": 2, "d": 4}


def test_the_papers_ranks_follow_from_its_rewards() -> None:
    scores = {
        task: {policy: rewards[task].mean for policy, rewards in paper.REWARDS.items()}
        for task in PAPER_TASKS
    }
    found = standings(scores)
    assert {own.player: own.ranks for own in found} == paper.RANKS
    for own in found:
        assert own.mean == pytest.approx(paper.MEAN_RANKS[own.player], abs=0.005)
    assert [own.player for own in found] == list(PAPER_POLICIES)


def test_the_paper_names_the_policies_and_tasks_that_we_run() -> None:
    assert set(paper.REWARDS) == set(paper.RANKS) == set(PAPER_POLICIES)
    assert all(tuple(row) == PAPER_TASKS for row in paper.REWARDS.values())
    assert paper.steps("financial") == 3713
    assert paper.steps("wheel") == 5000


def test_who_misses_a_task_is_not_ranked_there_and_comes_after_complete_ones() -> None:
    found = standings({"x": {"a": 9.0, "b": 1.0}, "y": {"b": 5.0, "c": 6.0}, "z": {"b": 2.0}})
    assert [own.player for own in found] == ["b", "a", "c"]
    assert [own.complete for own in found] == [True, False, False]
    assert found[0].ranks == {"x": 2, "y": 2, "z": 1}
    assert found[1].ranks == {"x": 1}
    assert np.isclose(found[0].mean, 5 / 3)
