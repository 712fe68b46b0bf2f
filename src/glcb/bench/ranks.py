"""Ranks from scores, computed as in the paper."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

Task = TypeVar("Task")
Contestant = TypeVar("Contestant")


@dataclass(frozen=True)
class Standing(Generic[Task, Contestant]):
    """Ranks of one contestant."""

    contestant: Contestant
    ranks: dict[Task, int]
    """Rank on each task for which there is a score."""
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


def standings(scores: Mapping[Task, Mapping[Contestant, float]]) -> list[Standing[Task, Contestant]]:
    """Rank the contestants on every task. The best mean rank comes first, incomplete standings last.

    On each task only the contestants with a score are ranked.
    """
    by_task = {task: ranks(task_scores) for task, task_scores in scores.items()}
    contestants = dict.fromkeys(name for task_scores in scores.values() for name in task_scores)
    result = [
        Standing(name, own, complete=len(own) == len(by_task))
        for name in contestants
        if (own := {task: ranked[name] for task, ranked in by_task.items() if name in ranked})
    ]
    return sorted(result, key=lambda standing: (not standing.complete, standing.mean))
