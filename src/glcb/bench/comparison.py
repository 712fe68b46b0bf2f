"""Paired comparisons: wins, ties and losses, the leaders of the tasks, and a sentence about them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np

from glcb.bench.statistics import BootstrapInterval, mean_and_error, paired_bootstrap

ERRORS = 2
"""A mean difference beyond this many standard errors is a win or a loss."""
_MAX_LISTED_TASKS = 4
_FEW_TASKS = 7
_MAX_LISTED_POLICIES = 3


Policy = TypeVar("Policy")


class Outcome(StrEnum):
    """Outcome of a paired comparison."""

    WIN = "win"
    TIE = "tie"
    LOSS = "loss"
    UNDECIDED = "undecided"
    """There are fewer than two pairs, so there is no standard error."""


def outcome(differences: Sequence[float]) -> Outcome:
    """Return a win or a loss if the mean difference is beyond two standard errors, else a tie.

    >>> [outcome(pairs).value for pairs in ([5.0, 6.0, 7.0], [-1.0, 0.5, 1.0], [3.0])]
    ['win', 'tie', 'undecided']
    """
    if len(differences) < 2:
        return Outcome.UNDECIDED
    mean, error = mean_and_error(differences)
    if error is None or abs(mean) <= ERRORS * error:
        return Outcome.TIE
    return Outcome.WIN if mean > 0 else Outcome.LOSS


@dataclass(frozen=True)
class OutcomeCounts:
    """Number of tasks with each outcome."""

    wins: int = 0
    ties: int = 0
    losses: int = 0
    undecided: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "OutcomeCounts":
        """Count outcomes.

        >>> OutcomeCounts.of([Outcome.WIN, Outcome.TIE, Outcome.WIN])
        OutcomeCounts(wins=2, ties=1, losses=0, undecided=0)
        """
        counts = Counter(outcomes)
        return cls(*(counts[own] for own in (Outcome.WIN, Outcome.TIE, Outcome.LOSS, Outcome.UNDECIDED)))

    @property
    def decided(self) -> int:
        """Number of tasks with a win, a tie or a loss."""
        return self.wins + self.ties + self.losses


@dataclass(frozen=True)
class Duel:
    """A policy against one other policy on one task."""

    differences: tuple[float, ...]
    """Total reward minus the other policy's, for each seed that both policies have; at least one."""
    baseline: float
    """Mean total reward of the other policy on these seeds."""

    @property
    def mean(self) -> float:
        """Mean difference."""
        return float(np.mean(self.differences))

    @property
    def error(self) -> float | None:
        """Standard error of the mean difference; None for a single seed."""
        return mean_and_error(self.differences)[1]

    @property
    def interval(self) -> BootstrapInterval | None:
        """Paired bootstrap interval of the mean difference; None for a single seed."""
        return paired_bootstrap(self.differences)

    @property
    def outcome(self) -> Outcome:
        """Win, tie or loss."""
        return outcome(self.differences)

    @property
    def relative(self) -> float | None:
        """Mean difference in percent of the other policy's reward; None if that is not positive."""
        return 100 * self.mean / self.baseline if self.baseline > 0 else None

    @property
    def relative_error(self) -> float | None:
        """Standard error of the mean difference in the same unit as ``relative``."""
        return 100 * self.error / self.baseline if self.error is not None and self.baseline > 0 else None


def leaders(scores: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    """Return the tasks on which each policy has the highest mean reward; most tasks first.

    Policies with the same mean share a task. Tasks that a single policy has run are left out.

    >>> leaders({"linear": {"a": 3.0, "b": 1.0}, "wheel": {"a": 2.0, "b": 2.0}, "own": {"c": 1.0}})
    {'a': ['linear', 'wheel'], 'b': ['wheel']}
    """
    led: dict[str, list[str]] = {}
    for task, means in scores.items():
        for policy, mean in means.items():
            if len(means) > 1 and mean == max(means.values()):
                led.setdefault(policy, []).append(task)
    return dict(sorted(led.items(), key=lambda item: -len(item[1])))


def best_other(means: Mapping[Policy, float], policy: Policy) -> Policy | None:
    """Return the policy with the highest mean other than ``policy``, or None.

    >>> best_other({"a": 3.0, "b": 1.0, "c": 2.0}, "a")
    'c'
    """
    others = {name: mean for name, mean in means.items() if name != policy}
    return max(others, key=lambda name: others[name]) if others else None


def conclusion(
    led: Mapping[str, Sequence[str]], tasks: int, policy: str, others: int, duels: Sequence[Duel]
) -> str:
    """Return one sentence: who leads on how many tasks, and how ``policy`` does against the best others.

    Parameters
    ----------
    led : mapping of str to sequence of str
        Tasks that each policy leads, from ``leaders``.
    tasks : int
        Number of tasks.
    policy : str
        The policy that is compared with the best other policy of each task.
    others : int
        Number of other policies.
    duels : sequence of Duel
        These comparisons.

    Returns
    -------
    str
        The sentence, or "" if there is nothing to compare.

    Examples
    --------
    >>> duels = [Duel((9.0, 11.0), 100.0), Duel((3.0, 3.0), 100.0), Duel((-1.0, 1.0), 100.0)]
    >>> conclusion({"A": ["linear", "smooth"], "B": ["wheel"]}, 3, "A", 4, duels)
    'A has the highest mean reward on 2 of 3 tasks (linear, smooth) and B on 1 (wheel); against the best of \
the 4 other policies on each task, A wins on 2, ties on 1 and loses on 0 (two standard errors of the paired \
differences; median difference +3.0%).'
    """
    if not led:
        return ""
    names = list(led)
    shown = names if len(names) <= _MAX_LISTED_POLICIES + 1 else names[:_MAX_LISTED_POLICIES]
    first = names[0]
    parts = [f"{first} has the highest mean reward on {_scope(led[first], tasks)}"]
    parts += [f"{name} on {len(led[name])}{_listed(led[name], tasks)}" for name in shown[1:]]
    rest = {task for name in names[len(shown) :] for task in led[name]}
    if rest:
        parts.append(f"{len(names) - len(shown)} others on {len(rest)}")
    return f"{_joined(parts)}; {_record(policy, others, tasks, duels)}."


def pareto_front(points: Mapping[Policy, tuple[float, float]]) -> list[Policy]:
    """Return the policies at points (cost, gain) that no other point dominates; the cheapest first.

    A point dominates another if it costs no more, gains no less, and is better in one of the two.

    >>> pareto_front({"slow": (9.0, 0.9), "fast": (1.0, 0.5), "bad": (9.0, 0.4)})
    ['fast', 'slow']
    """
    front = [
        name
        for name, (cost, gain) in points.items()
        if not any(c <= cost and g >= gain and (c, g) != (cost, gain) for c, g in points.values())
    ]
    return sorted(front, key=lambda name: points[name])


def _scope(led: Sequence[str], total: int) -> str:
    if total == 1:
        return led[0]
    return f"all {total} tasks" if len(led) == total else f"{len(led)} of {total} tasks{_listed(led, total)}"


def _listed(led: Sequence[str], total: int) -> str:
    return f" ({', '.join(led)})" if len(led) <= _MAX_LISTED_TASKS and total <= _FEW_TASKS else ""


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _percent(value: float) -> str:
    return f"{value:+.1f}%".replace("-", "−") if abs(value) >= 0.05 else "0.0%"


def _record(policy: str, others: int, tasks: int, duels: Sequence[Duel]) -> str:
    tally = OutcomeCounts.of(own.outcome for own in duels)
    others_named = "the other policy" if others == 1 else f"the best of the {others} other policies"
    where = "" if tasks == 1 else " on each task"
    if not tally.decided:
        return f"no difference of {policy} from {others_named}{where} can be judged without a second seed"
    relative = [own.relative for own in duels if own.relative is not None]
    size = _percent(float(np.median(relative))) if relative else ""
    if tasks == 1:
        verb = "wins" if tally.wins else "ties" if tally.ties else "loses"
        notes = ["two standard errors of the paired differences", size and f"difference {size}"]
    else:
        verb = f"wins on {tally.wins}, ties on {tally.ties} and loses on {tally.losses}"
        notes = ["two standard errors of the paired differences", size and f"median difference {size}"]
    missing = tasks - tally.decided
    notes.append(f"{missing} not judged" if missing else "")
    return f"against {others_named}{where}, {policy} {verb} ({'; '.join(filter(None, notes))})"
