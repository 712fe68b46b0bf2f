"""Ranks from scores, as the paper counts them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

Task = TypeVar("Task")
Player = TypeVar("Player")


@dataclass(frozen=True)
class Standing(Generic[Task, Player]):
    """How one player stands among the others."""

    player: Player
    ranks: dict[Task, int]
    """Rank on each task that it has played."""
    complete: bool
    """Whether it has played every task; only then can its mean be compared."""

    @property
    def mean(self) -> float:
        """Mean of the ranks."""
        return float(np.mean(list(self.ranks.values())))


def ranks(scores: Mapping[Player, float]) -> dict[Player, int]:
    """Return 1 for the highest score. Equal scores share the better rank, and the next one is left out.

    >>> ranks({"a": 3.0, "b": 7.0, "c": 3.0, "d": 1.0})
    {'a': 2, 'b': 1, 'c': 2, 'd': 4}
    """
    return {player: 1 + sum(other > score for other in scores.values()) for player, score in scores.items()}


def standings(scores: Mapping[Task, Mapping[Player, float]]) -> list[Standing[Task, Player]]:
    """Rank the players on every task; best mean rank first, those who have not played all tasks last.

    On each task only those who have played it are ranked.
    """
    by_task = {task: ranks(own) for task, own in scores.items()}
    players = dict.fromkeys(player for own in scores.values() for player in own)
    found = [
        Standing(player, own, complete=len(own) == len(by_task))
        for player in players
        if (own := {task: ranked[player] for task, ranked in by_task.items() if player in ranked})
    ]
    return sorted(found, key=lambda standing: (not standing.complete, standing.mean))
