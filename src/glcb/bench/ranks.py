"""Ranks from scores, the Friedman test, and the critical difference of mean ranks.

References
----------
J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", Journal of Machine Learning
Research 7, 2006.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np

from glcb._errors import INSTALL_REPORT, MissingExtra

Task = TypeVar("Task")
Contestant = TypeVar("Contestant")
Ties = Literal["best", "mean"]
"""The rank that equal scores share: the best of their ranks, as in the paper, or the mean."""

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Standing(Generic[Task, Contestant]):
    """Ranks of one contestant."""

    contestant: Contestant
    ranks: dict[Task, float]
    """Rank on each task with a score."""
    complete: bool
    """Whether there is a score for every task; only then is the mean rank comparable."""

    @property
    def mean(self) -> float:
        """Mean rank."""
        return float(np.mean(list(self.ranks.values())))


def ranks(scores: Mapping[Contestant, float]) -> dict[Contestant, int]:
    """Return 1 for the highest score. Equal scores share the better rank and the next rank is skipped.

    >>> ranks({"a": 3.0, "b": 7.0, "c": 3.0, "d": 1.0})
    {'a': 2, 'b': 1, 'c': 2, 'd': 4}
    """
    return {name: 1 + sum(other > score for other in scores.values()) for name, score in scores.items()}


def mean_ranks(scores: Mapping[Contestant, float]) -> dict[Contestant, float]:
    """Return 1 for the highest score. Equal scores share the mean of their ranks.

    >>> mean_ranks({"a": 3.0, "b": 7.0, "c": 3.0, "d": 1.0})
    {'a': 2.5, 'b': 1.0, 'c': 2.5, 'd': 4.0}
    """
    equal = {name: sum(other == score for other in scores.values()) for name, score in scores.items()}
    return {name: rank + (equal[name] - 1) / 2 for name, rank in ranks(scores).items()}


def standings(
    scores: Mapping[Task, Mapping[Contestant, float]], ties: Ties = "best"
) -> list[Standing[Task, Contestant]]:
    """Rank the contestants on every task. The best mean rank comes first, incomplete standings last.

    On each task only the contestants with a score are ranked.
    """
    by_task: dict[Task, dict[Contestant, float]] = {
        task: mean_ranks(own) if ties == "mean" else dict(ranks(own)) for task, own in scores.items()
    }
    contestants = dict.fromkeys(name for task_scores in scores.values() for name in task_scores)
    result = [
        Standing(name, own, complete=len(own) == len(by_task))
        for name in contestants
        if (own := {task: ranked[name] for task, ranked in by_task.items() if name in ranked})
    ]
    return sorted(result, key=lambda standing: (not standing.complete, standing.mean))


@dataclass(frozen=True)
class RankComparison(Generic[Contestant]):
    """Mean ranks over several tasks, and which differences exceed chance."""

    means: dict[Contestant, float]
    """Mean rank of each contestant; the best first. Equal scores share the mean of their ranks."""
    tasks: int
    p_value: float
    """Friedman test of the hypothesis that all contestants are equivalent."""
    critical_difference: float
    """Nemenyi test: mean ranks with smaller differences are not distinguishable."""

    @property
    def groups(self) -> list[list[Contestant]]:
        """The largest groups of two or more contestants whose mean ranks are not distinguishable."""
        return indistinguishable(self.means, self.critical_difference)


def compare_ranks(scores: Mapping[Task, Mapping[Contestant, float]]) -> RankComparison[Contestant] | None:
    """Compare the contestants with a score on every task; None for fewer than two contestants or tasks.

    Raises
    ------
    MissingExtra
        If SciPy is not installed.
    """
    complete = [own.contestant for own in standings(scores) if own.complete]
    if len(complete) < 2 or len(scores) < 2:
        return None
    shared = [{name: own[name] for name in complete} for own in scores.values()]
    by_task = [mean_ranks(own) for own in shared]
    means = {name: float(np.mean([own[name] for own in by_task])) for name in complete}
    table = [[own[name] for name in complete] for own in by_task]
    return RankComparison(
        means=dict(sorted(means.items(), key=lambda item: item[1])),
        tasks=len(scores),
        p_value=friedman(table),
        critical_difference=critical_difference(len(complete), len(scores)),
    )


def friedman(table: Sequence[Sequence[float]]) -> float:
    """Return the p-value of the Friedman test of a table of ranks, one row per task, corrected for ties.

    >>> round(friedman([[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 3, 2]]), 4)
    0.0388
    """
    try:
        from scipy.stats import chi2
    except ImportError as error:
        raise MissingExtra(f"rank tests need SciPy: {INSTALL_REPORT}") from error

    values = np.asarray(table, np.float64)
    tasks, contestants = values.shape
    deviations = values.mean(axis=0) - (contestants + 1) / 2
    variance = float(((values - (contestants + 1) / 2) ** 2).sum()) / (tasks * (contestants - 1))
    if not variance:
        return 1.0  # all contestants are equal on every task
    statistic = tasks * float((deviations**2).sum()) / variance
    return float(chi2.sf(statistic, contestants - 1))


def critical_difference(contestants: int, tasks: int) -> float:
    """Return the critical difference of mean ranks (Nemenyi test) at the 5% level.

    >>> round(critical_difference(4, 14), 2)  # the example of Demšar (2006)
    1.25
    """
    try:
        from scipy.stats import studentized_range
    except ImportError as error:
        raise MissingExtra(f"rank tests need SciPy: {INSTALL_REPORT}") from error

    q = float(studentized_range.ppf(1 - SIGNIFICANCE, contestants, np.inf)) / math.sqrt(2)
    return q * math.sqrt(contestants * (contestants + 1) / (6 * tasks))


def indistinguishable(means: Mapping[Contestant, float], limit: float) -> list[list[Contestant]]:
    """Return the largest groups of two or more whose values all differ by less than ``limit``.

    >>> indistinguishable({"a": 1.0, "b": 1.5, "c": 1.9, "d": 4.0}, 0.6)
    [['a', 'b'], ['b', 'c']]
    """
    ordered = sorted(means, key=lambda name: means[name])
    groups: list[list[Contestant]] = []
    for start, name in enumerate(ordered):
        group = [other for other in ordered[start:] if means[other] - means[name] < limit]
        if len(group) > 1 and not (groups and set(group) <= set(groups[-1])):
            groups.append(group)
    return groups
