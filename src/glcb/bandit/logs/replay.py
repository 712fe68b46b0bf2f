"""Replays a log through a bandit, row by row, as if the bandit had made the decisions itself."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from glcb.bandit.encoding.values import classify_value
from glcb.bandit.logs.format import (
    ArmNames,
    LogColumns,
    RejectedRow,
    get_arm,
    get_arm_features,
    get_context,
    get_propensity,
    get_reward,
    is_event,
    to_arm,
)
from glcb.bandit.logs.reader import Record, read_records
from glcb.bandit.slots import slot_id

MAX_ARMS = 1000
"""A column with more distinct values than this is unlikely to hold arms."""
_PROGRESS_ROWS = 1000

_REASONS: Mapping[type[InvalidInput], str] = {
    UnknownArm: "unknown arm",
    InvalidContext: "invalid context",
    InvalidReward: "invalid reward",
    UnknownDecision: "unknown decision",
    DuplicateReward: "duplicate reward",
    ClosedDecision: "closed decision",
}


@dataclass(frozen=True)
class LogReport:
    """The result of learning from a log.

    Attributes
    ----------
    rows : int
        Rows read. The header of a log is not a row.
    decisions : int
        Decisions replayed.
    learned : int
        Rewards learned.
    refused : mapping
        Number of rejected rows, by reason.
    examples : mapping
        The first rejected row for each reason, with details.
    share : float
        Share of the log read so far, from 0 to 1.
    """

    rows: int = 0
    decisions: int = 0
    learned: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    share: float = 1.0

    def __str__(self) -> str:
        refused = sum(self.refused.values())
        lines = [
            f"{_plural(self.rows, 'row')}: {_plural(self.decisions, 'decision')} and "
            f"{_plural(self.learned, 'reward')} learned, {_plural(refused, 'row')} rejected"
        ]
        for reason, count in sorted(self.refused.items(), key=lambda item: -item[1]):
            lines.append(f"  {count:,} × {reason}, for example {self.examples[reason]}")
        return "\n".join(lines)


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


Progress = Callable[[LogReport], None]
"""Called with the report so far, every 1,000 rows and at the end."""


class ReplayTarget(Protocol):
    """The bandit to train. The methods raise InvalidInput for invalid values and then change nothing."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""

    @property
    def has_arm_features(self) -> bool:
        """Whether arms have features, so that unknown arms are allowed."""

    def replay_row(
        self, context: Any, arm: Arm, reward: float, propensity: float, candidates: Any = None
    ) -> None:
        """Learn from a decision together with its reward."""

    def replay_ranking(
        self, context: Any, slots: list[tuple[Arm, float]], arms: Any, time: float, logged_id: str
    ) -> list[str]:
        """Add the slots of a ranking and return their ids in the bandit."""

    def replay_arms(self, arms: Any, added: Any, removed: Any) -> None:
        """Replace the catalog, or change it."""

    def replay_unexamined(self, decision_id: str) -> None:
        """Drop a slot that was not examined."""

    def replay_reward(
        self, decision_id: str, value: float, key: str | int | None, final: bool, time: float
    ) -> bool:
        """Add the reward of a pending decision; return False if it had one with the same key."""

    def replay_outcome(self, decision_id: str, value: float, final: bool, time: float) -> None:
        """Learn the reward of a decision at its label age or timeout."""


class LogReplay:
    """Replays one log through a bandit and counts the results."""

    def __init__(
        self,
        target: ReplayTarget,
        exclusively: Callable[[Callable[[], None]], None],
        columns: LogColumns,
        max_pending: int,
    ) -> None:
        self._target = target
        self._exclusively = exclusively
        self._columns = columns
        self._arm_names = ArmNames(target.arms)
        self._max_ids = max_pending
        # Log ids and their ids in the bandit. Ids of settled decisions are kept so that a second reward is
        # rejected for the right reason.
        self._pending_ids: OrderedDict[str, str] = OrderedDict()
        self._settled_ids: OrderedDict[str, str] = OrderedDict()
        self._rows = self._decisions = self._learned = 0
        self._refused: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def run(self, path: Path, form: str | None, progress: Progress | None) -> LogReport:
        """Replay the whole log."""
        share = 0.0
        try:
            for record in read_records(path, form, self._columns):
                self._replay(record)
                self._rows, share = self._rows + 1, record.share
                if progress is not None and self._rows % _PROGRESS_ROWS == 0:
                    progress(self._report(share))
        except LogError as error:
            if not self._rows:
                raise
            raise LogError(
                f"{error} (at row {self._rows + 1:,}, after {_plural(self._learned, 'learned reward')})",
                self._report(share),
            ) from error
        report = self._report(1.0)
        if progress is not None:
            progress(report)
        return report

    def _replay(self, record: Record) -> None:
        """Learn from a record, or count it as rejected."""
        try:
            values = record.values
            if values is None:
                raise RejectedRow("invalid row", record.problem)
            # Per row, so that other threads can use the bandit in between.
            self._exclusively(lambda: self._replay_values(values))
        except RejectedRow as error:
            self._refuse(error.reason, error)
        except InvalidInput as error:
            self._refuse(_REASONS.get(type(error), "invalid value"), error)

    def _report(self, share: float) -> LogReport:
        return LogReport(
            self._rows, self._decisions, self._learned, dict(self._refused), dict(self._examples), share
        )

    def _refuse(self, reason: str, error: Exception) -> None:
        self._refused[reason] += 1
        self._examples.setdefault(reason, f"row {self._rows + 1:,}: {error}")

    def _replay_values(self, values: Mapping[str, Any]) -> None:
        if not is_event(values):
            context = get_context(values, self._columns)
            arm = self._find_arm(values)
            reward, propensity = get_reward(values, self._columns), get_propensity(values, self._columns)
            features = get_arm_features(values, self._columns)
            candidates = None if features is None else {arm: features}
            self._target.replay_row(context, arm, reward, propensity, candidates)
            self._decisions += 1
            self._learned += 1
            return
        if values["event"] == "arms":
            self._target.replay_arms(values.get("arms"), values.get("added"), values.get("removed"))
            return
        log_id = str(values["id"])
        if values["event"] == "decision":
            self._replay_decision(log_id, values)
            return
        if values["event"] == "ranking":
            self._replay_ranking(log_id, values)
            return
        if values["event"] == "unexamined":
            self._target.replay_unexamined(self._pending_ids.get(log_id, log_id))
            return
        value = get_reward(values, self._columns)
        own_id = self._pending_ids.get(log_id) or self._settled_ids.get(log_id, log_id)
        final, time = values.get("final") is not False, _time(values)
        if values["event"] == "outcome":
            self._target.replay_outcome(own_id, value, final, time)
            if final:
                self._settle(log_id)
            return
        if not self._target.replay_reward(own_id, value, values.get("idempotency_key"), final, time):
            raise RejectedRow(
                "duplicate reward", f"decision {log_id!r} had a reward with this idempotency key"
            )
        if final:
            self._settle(log_id)

    def _replay_decision(self, log_id: str, values: Mapping[str, Any]) -> None:
        context = get_context(values, self._columns)
        arm = self._find_arm(values)
        propensity = get_propensity(values, self._columns)
        [own_id] = self._target.replay_ranking(context, [(arm, propensity)], None, _time(values), log_id)
        self._decisions += 1
        self._remember(self._pending_ids, log_id, own_id)

    def _replay_ranking(self, log_id: str, values: Mapping[str, Any]) -> None:
        listed = values.get("slots")
        if (
            not isinstance(listed, list)
            or not all(isinstance(slot, Mapping) for slot in listed)
            or not listed
        ):
            raise RejectedRow("invalid row", "a ranking needs a list of slots")
        context = get_context(values, self._columns)
        slots = [(self._find_arm(slot), get_propensity(slot, LogColumns())) for slot in listed]
        own_ids = self._target.replay_ranking(context, slots, values.get("arms"), _time(values), log_id)
        self._decisions += len(slots)
        for number, own_id in enumerate(own_ids):
            self._remember(self._pending_ids, slot_id(log_id, number), own_id)

    def _settle(self, log_id: str) -> None:
        self._learned += 1
        own_id = self._pending_ids.pop(log_id, None)
        if own_id is not None:
            self._remember(self._settled_ids, log_id, own_id)

    def _remember(self, ids: OrderedDict[str, str], log_id: str, own_id: str) -> None:
        """Keep the id of a decision for as long as the bandit remembers the decision."""
        ids.pop(log_id, None)
        ids[log_id] = own_id
        if len(ids) > self._max_ids:
            ids.popitem(last=False)

    def _find_arm(self, values: Mapping[str, Any]) -> Arm:
        if self._target.has_arm_features:
            arm = to_arm(get_arm(values, self._columns))
            if arm is None:
                raise RejectedRow(
                    "unknown arm", f"{values.get(self._columns.arm)!r} cannot be the name of an arm"
                )
            return arm
        if self._arm_names.arms != self._target.arms:  # another thread added or removed one
            self._arm_names = ArmNames(self._target.arms)
        return self._arm_names.find(get_arm(values, self._columns))


def _time(values: Mapping[str, Any]) -> float:
    """Return the time of an event, or 0 if it has none."""
    kind, time = classify_value(values.get("time"))
    return time if kind == "number" else 0.0


def arms_in(path: Path, form: str | None, columns: LogColumns) -> tuple[Arm, ...]:
    """Return the arms in a log, integers first. Arms are integers only if every arm is one.

    Raises
    ------
    LogError
        If the log cannot be read, or has no arms or more than 1,000 of them.
    """
    arms: dict[Arm, None] = {}
    for record in read_records(path, form, columns):
        values = record.values
        if values is None or (is_event(values) and values["event"] != "decision"):
            continue
        arm = to_arm(values.get(columns.arm))
        if arm is not None:
            arms[arm] = None
        if len(arms) > MAX_ARMS:
            raise LogError(
                f"{path} has more than {MAX_ARMS:,} arms in {columns.arm!r}: name the column of the arms, or "
                "list the arms"
            )
    if not arms:
        raise LogError(f"{path} has no arms in {columns.arm!r}: name the column of the arms")
    if all(isinstance(arm, int) or is_integer(arm) for arm in arms):  # CSV files hold strings only
        return tuple(sorted(set(map(int, arms))))
    return tuple(sorted(arms, key=lambda arm: (isinstance(arm, str), arm)))
