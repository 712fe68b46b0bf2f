"""Wins, ties and losses, leaders, the conclusion, and the Pareto front."""

import numpy as np
import pytest

from glcb.bench.comparison import Duel, Outcome, OutcomeCounts, conclusion, leaders, outcome, pareto_front


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([1.0, 1.0, 1.0], Outcome.WIN),
        ([-1.0, -1.0], Outcome.LOSS),
        ([0.0, 0.0], Outcome.TIE),
        ([0.0, 2.0], Outcome.TIE),  # mean 1, standard error 1
        ([1.0, 3.1, 2.0, 2.0], Outcome.WIN),
        ([7.0], Outcome.UNDECIDED),
        ([], Outcome.UNDECIDED),
    ],
)
def test_a_win_is_a_mean_difference_beyond_two_standard_errors(
    differences: list[float], expected: Outcome
) -> None:
    assert outcome(differences) is expected


def test_equal_policies_win_or_lose_by_chance_in_about_one_of_twenty_comparisons() -> None:
    rng = np.random.default_rng(10_003)
    tally = OutcomeCounts.of(outcome(rng.normal(size=40).tolist()) for _ in range(2000))
    assert tally.decided == 2000
    # Student's t with 39 degrees of freedom exceeds 2 in absolute value with probability 0.052.
    assert 0.035 < (tally.wins + tally.losses) / 2000 < 0.07


def test_a_duel_is_relative_to_the_other_policy() -> None:
    duel = Duel((10.0, 20.0, 30.0), 400.0)
    assert duel.mean == 20.0
    assert duel.error == pytest.approx(10 / np.sqrt(3))
    assert duel.relative == 5.0
    assert duel.relative_error == pytest.approx(2.5 / np.sqrt(3))
    assert duel.outcome is Outcome.WIN
    assert duel.interval is not None
    assert 10.0 <= duel.interval.low < 20.0 < duel.interval.high <= 30.0
    assert Duel((10.0, 20.0), -5.0).relative is None, "a share of a negative reward has no meaning"
    assert (Duel((10.0,), 5.0).error, Duel((10.0,), 5.0).interval) == (None, None)


def test_the_conclusion_names_few_leaders_and_counts_the_others() -> None:
    tasks = [f"t{number}" for number in range(26)]
    scores = {task: dict.fromkeys("abcdef", 0.0) for task in tasks}
    for number, name in enumerate("a" * 12 + "b" * 6 + "c" * 4 + "d" * 2 + "e" * 2):
        scores[tasks[number]][name] = 1.0
    duels = [Duel((2.0, 2.1), 100.0)] * 10 + [Duel((-1.0, 1.0), 100.0)] * 9 + [Duel((-3.0, -3.1), 100.0)] * 6
    assert conclusion(leaders(scores), 26, "a", 5, duels) == (
        "a has the highest mean reward on 12 of 26 tasks, b on 6, c on 4 and 2 others on 4; against the best "
        "of the 5 other policies on each task, a wins on 10, ties on 9 and loses on 6 (two standard errors "
        "of the paired differences; median difference 0.0%; 1 not judged)."
    )


def test_the_conclusion_on_a_single_task_names_the_task() -> None:
    led = leaders({"wheel": {"a": 2.0, "b": 1.0}})
    assert conclusion(led, 1, "b", 1, [Duel((-1.0, -1.0), 2.0)]) == (
        "a has the highest mean reward on wheel; against the other policy, b loses (two standard errors of "
        "the paired differences; difference −50.0%)."
    )
    assert conclusion({}, 1, "a", 0, []) == ""


def test_the_pareto_front_has_exactly_the_points_that_no_other_dominates() -> None:
    rng = np.random.default_rng(10_004)
    for _ in range(50):
        points = {index: (float(x), float(y)) for index, (x, y) in enumerate(rng.integers(0, 6, (12, 2)))}
        front = pareto_front(points)
        for index, (cost, gain) in points.items():
            dominated = any((c < cost and g >= gain) or (c <= cost and g > gain) for c, g in points.values())
            assert (index in front) != dominated
        assert [points[index][0] for index in front] == sorted(points[index][0] for index in front)
