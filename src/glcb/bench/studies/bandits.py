"""Bandits as studies use them: on the contexts of tasks, with rewards at once, late or lost."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from glcb._types import Float64
from glcb.bandit import Bandit
from glcb.explore.probabilities import ExplorationMode
from glcb.tasks.base import Task

POLICY = "glcb"


def bandit_for(
    task: Task, seed: int, exploration: float = 0.0, exploration_mode: ExplorationMode = "gap"
) -> Bandit:
    """Return a bandit that takes the contexts of ``task`` as they are."""
    return Bandit(
        task.arms,
        policy=POLICY,
        rewards=task.rewards,
        exploration=exploration,
        exploration_mode=exploration_mode,
        schema={str(feature): (0.0, 1.0) for feature in range(task.features)},
        spare_slots=0,
        seed=seed,
    )


def through_bandit(
    bandit: Bandit,
    contexts: Iterable[Any],
    rewards: Float64,
    *,
    delay: int = 0,
    lost: Sequence[bool] | None = None,
) -> float:
    """Let ``bandit`` decide on every context; return the sum of what its decisions brought, learned or not.

    It hears of a reward after ``delay`` more decisions, and never of one that is ``lost``.
    """
    number = {arm: index for index, arm in enumerate(bandit.arms)}
    losses = repeat(False, len(rewards)) if lost is None else lost
    under_way: deque[tuple[str, float]] = deque()
    total = 0.0
    for context, row, gone in zip(contexts, rewards.tolist(), losses, strict=True):
        decision = bandit.decide(context)
        value = row[number[decision.arm]]
        total += value
        under_way.append(("" if gone else decision.id, value))
        if len(under_way) > delay:
            name, value = under_way.popleft()
            if name:
                bandit.reward(name, value)
    return total
