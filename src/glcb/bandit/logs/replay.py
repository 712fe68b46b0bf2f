"""A log, led through a bandit row by row: as if the bandit had made those decisions itself."""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from glcb._errors import (
    ClosedDecision,
    DuplicateReward,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    LogError,
    UnknownArm,
    UnknownDecision,
)
from glcb._text import is_integer
from glcb._types import Arm
from glcb.bandit.encoding.values import nature
from glcb.bandit.logs.columns import (
    ArmNames,
    Refused,
    arm_called,
    arm_of,
    context_of,
    is_event,
    propensity_of,
    reward_of,
)
from glcb.bandit.logs.reader import Layout, Record, records
from glcb.bandit.logs.report import LogReport, Progress

MOST_ARMS = 1000
"""A column with more different values than this is hardly one of arms."""
_EVERY = 1000

_REASONS: Mapping[type[InvalidInput], str] = {
    UnknownArm: "unknown arm",
    InvalidContext: "no usable context",
    InvalidReward: "impossible reward",
    UnknownDecision: "unknown decision",
    DuplicateReward: "rewarded already",
    ClosedDecision: "expired decision",
}


class Pupil(Protocol):
    """Who learns from a log. All of these raise InvalidInput, and then change nothing."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""

    def _replay_row(self, context: Any, arm: Arm, reward: float, propensity: float) -> None:
        """Learn from a decision together with its reward."""

    def _replay_decision(self, context: Any, arm: Arm, propensity: float, time: float) -> str:
        """Let a decision wait for its reward; return the id that it has here."""

    def _replay_reward(self, name: str, value: float, key: str | int | None, final: bool) -> bool:
        """Take the reward of a decision that waits; return False if the same one came before."""

    def _replay_outcome(self, name: str, value: float) -> None:
        """Learn what was learned when the time of a decision was over."""


class Learner:
    """Teaches a bandit what is in a log, and keeps count."""

    def __init__(self, pupil: Pupil, layout: Layout, max_pending: int) -> None:
        self._pupil = pupil
        self._layout = layout
        self._names = ArmNames(pupil.arms)
        self._most = max_pending
        self._waiting: OrderedDict[str, str] = OrderedDict()
        """The ids that the decisions of the log have in the bandit, as far as they can wait there."""
        self._settled: OrderedDict[str, str] = OrderedDict()
        """And of those that have their reward, so that another one is refused for the right reason."""
        self._rows = self._decisions = self._learned = 0
        self._refused: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def learn(self, path: Path, form: str | None, progress: Progress | None) -> LogReport:
        """Go through the whole log."""
        share = 0.0
        try:
            for record in records(path, form, self._layout):
                self._try(record)
                self._rows, share = self._rows + 1, record.share
                if progress is not None and self._rows % _EVERY == 0:
                    progress(self._report(share))
        except LogError as error:
            if not self._rows:
                raise
            raise LogError(
                f"{error}; that was in row {self._rows + 1:,}, rewards learned before it: {self._learned:,}",
                self._report(share),
            ) from error
        report = self._report(1.0)
        if progress is not None:
            progress(report)
        return report

    def _try(self, record: Record) -> None:
        """Learn from a row, or refuse it."""
        try:
            if record.values is None:
                raise Refused("not a record", record.problem)
            self._take(record.values)
        except Refused as refused:
            self._refuse(refused.reason, refused)
        except InvalidInput as error:
            self._refuse(_REASONS.get(type(error), "impossible"), error)

    def _report(self, share: float) -> LogReport:
        return LogReport(
            self._rows, self._decisions, self._learned, dict(self._refused), dict(self._examples), share
        )

    def _refuse(self, reason: str, error: Exception) -> None:
        self._refused[reason] += 1
        self._examples.setdefault(reason, f"row {self._rows + 1:,}: {error}")

    def _take(self, values: Mapping[str, Any]) -> None:
        if not is_event(values):
            context = context_of(values, self._layout)
            arm = self._arm(values)
            reward, propensity = reward_of(values, self._layout), propensity_of(values, self._layout)
            self._pupil._replay_row(context, arm, reward, propensity)
            self._decisions += 1
            self._learned += 1
            return
        name = str(values["id"])
        if values["event"] == "decision":
            self._take_decision(name, values)
            return
        value = reward_of(values, self._layout)
        own = self._waiting.get(name) or self._settled.get(name, name)
        if values["event"] == "outcome":
            self._pupil._replay_outcome(own, value)
            self._settle(name)
            return
        final = values.get("final") is not False
        if not self._pupil._replay_reward(own, value, values.get("key"), final):
            raise Refused("rewarded already", f"the decision {name!r} had a reward with this key before")
        if final:
            self._settle(name)

    def _take_decision(self, name: str, values: Mapping[str, Any]) -> None:
        context = context_of(values, self._layout)
        arm = self._arm(values)
        propensity = propensity_of(values, self._layout)
        kind, time = nature(values.get("time"))
        own = self._pupil._replay_decision(context, arm, propensity, time if kind == "number" else 0.0)
        self._decisions += 1
        self._keep(self._waiting, name, own)

    def _settle(self, name: str) -> None:
        self._learned += 1
        own = self._waiting.pop(name, None)
        if own is not None:
            self._keep(self._settled, name, own)

    def _keep(self, ids: OrderedDict[str, str], name: str, own: str) -> None:
        """Keep as many as the bandit does, which forgets the oldest too."""
        ids.pop(name, None)
        ids[name] = own
        if len(ids) > self._most:
            ids.popitem(last=False)

    def _arm(self, values: Mapping[str, Any]) -> Arm:
        if self._names.arms != self._pupil.arms:  # somebody added one meanwhile, or removed one
            self._names = ArmNames(self._pupil.arms)
        return self._names.find(arm_of(values, self._layout))


def arms_in(path: Path, form: str | None, layout: Layout) -> tuple[Arm, ...]:
    """Return the arms that occur in a log, numbers first; they are numbers only if all of them are."""
    found: dict[Arm, None] = {}
    for record in records(path, form, layout):
        values = record.values
        if values is None or (is_event(values) and values["event"] != "decision"):
            continue
        arm = arm_called(values.get(layout.arm))
        if arm is not None:
            found[arm] = None
        if len(found) > MOST_ARMS:
            raise LogError(
                f"{path} has more than {MOST_ARMS:,} arms in {layout.arm!r}: name the column that holds the "
                "arms, or the arms"
            )
    if not found:
        raise LogError(f"{path} has no arms in {layout.arm!r}: name the column that holds the arms")
    if all(isinstance(arm, int) or is_integer(arm) for arm in found):  # a CSV file knows texts only
        return tuple(sorted(set(map(int, found))))
    return tuple(sorted(found, key=lambda arm: (isinstance(arm, str), arm)))
