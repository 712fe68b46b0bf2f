"""The leading policy of each task, and a sentence about the leaders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glcb.bench.statistics import LEVEL, paired_bootstrap

_MAX_LISTED = 4

Totals = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Total reward by task, policy and seed."""


@dataclass(frozen=True)
class Leader:
    """The policy with the highest mean reward on a task."""

    task: str
    policy: str
    is_clear: bool
    """Whether the paired bootstrap interval of the difference from the runner-up excludes 0."""


def leaders(totals: Totals) -> list[Leader]:
    """Return the leader of each task that at least two policies have run.

    >>> leaders({"wheel": {"a": {0: 3.0, 1: 4.0}, "b": {0: 1.0, 1: 2.0}}})
    [Leader(task='wheel', policy='a', is_clear=True)]
    """
    result = []
    for task, policies in totals.items():
        ranked = sorted(policies, key=lambda policy: -_mean(policies[policy]))
        if len(ranked) > 1:
            best, second = (policies[policy] for policy in ranked[:2])
            shared = sorted(best.keys() & second.keys())
            interval = paired_bootstrap([best[seed] - second[seed] for seed in shared])
            result.append(Leader(task, ranked[0], interval is not None and interval.low > 0))
    return result


def conclusion(task_leaders: Sequence[Leader]) -> str:
    """Return one sentence about the leaders, or "" without a comparison.

    >>> conclusion([Leader("linear", "A", True), Leader("smooth", "A", True), Leader("wheel", "B", False)])
    'A has the highest mean reward on 2 of 3 tasks (linear, smooth) and B on 1 (wheel); the lead over the \
runner-up is statistically clear on 2 of 3 tasks (95% paired bootstrap).'
    """
    if not task_leaders:
        return ""
    tasks: dict[str, list[str]] = {}
    for leader in task_leaders:
        tasks.setdefault(leader.policy, []).append(leader.task)
    ordered = sorted(tasks.items(), key=lambda item: -len(item[1]))
    first, own = ordered[0]
    parts = [f"{first} has the highest mean reward on {_first_scope(own, len(task_leaders))}"]
    parts += [f"{policy} on {_counted(own)}" for policy, own in ordered[1:]]
    return f"{_joined(parts)}; {_clarity(task_leaders)}."


def _mean(by_seed: Mapping[int, float]) -> float:
    return float(np.mean(list(by_seed.values())))


def _first_scope(tasks: Sequence[str], total: int) -> str:
    if total == 1:
        return tasks[0]
    if len(tasks) == total:
        return f"all {total} tasks"
    return f"{len(tasks)} of {total} tasks{_listed(tasks)}"


def _counted(tasks: Sequence[str]) -> str:
    return f"{len(tasks)}{_listed(tasks)}"


def _listed(tasks: Sequence[str]) -> str:
    return f" ({', '.join(tasks)})" if len(tasks) <= _MAX_LISTED else ""


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _clarity(task_leaders: Sequence[Leader]) -> str:
    clear, total = sum(leader.is_clear for leader in task_leaders), len(task_leaders)
    method = f"({100 * LEVEL:g}% paired bootstrap)"
    if total == 1:
        return f"the lead over the runner-up is {'' if clear else 'not '}statistically clear {method}"
    if clear in (0, total):
        scope = "is statistically clear on every task" if clear else "is not statistically clear on any task"
        return f"the lead over the runner-up {scope} {method}"
    return f"the lead over the runner-up is statistically clear on {clear} of {total} tasks {method}"
