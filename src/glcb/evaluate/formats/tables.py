"""Event logs of a bandit and tables with one row per decision, as JSON lines, CSV or Parquet."""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from glcb._types import Arm
from glcb.bandit.logs.format import (
    LogColumns,
    RejectedRow,
    get_arm,
    get_context,
    get_propensity,
    get_reward,
    is_event,
    to_arm,
)
from glcb.bandit.logs.reader import read_records
from glcb.evaluate.rows import LoggedDecision, LogRow

MAX_PENDING = 100_000
"""Decisions of an event log that wait for a reward; when there are more, the oldest has none."""
_ELIGIBLE, _PROBABILITIES, _TIME = "eligible", "probabilities", "time"


class _Joined:
    """A decision of an event log and its reward, once it is known."""

    __slots__ = ("final", "reward", "values")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.reward: float | None = None
        self.final = False


class Joiner:
    """Joins decisions with their rewards. Decisions leave in the order in which they were made."""

    def __init__(self, default_reward: float | None) -> None:
        self._default = default_reward
        self._pending: OrderedDict[str, _Joined] = OrderedDict()

    def add(self, values: Mapping[str, Any], share: float) -> Iterator[LogRow]:
        """Add an event; yield the decisions whose reward is now known, or why the event is refused."""
        try:
            self._add(values)
        except RejectedRow as error:
            yield LogRow(None, share, error.reason, str(error))
        while self._pending:
            first = next(iter(self._pending.values()))
            if not first.final and len(self._pending) <= MAX_PENDING:
                return
            self._pending.popitem(last=False)
            yield self._row(first, share)

    def finish(self) -> Iterator[LogRow]:
        """Yield the remaining decisions."""
        for joined in self._pending.values():
            yield self._row(joined, 1.0)
        self._pending.clear()

    def _add(self, values: Mapping[str, Any]) -> None:
        decision_id = str(values["id"])
        if values["event"] == "decision":
            self._pending[decision_id] = _Joined(values)
            return
        joined = self._pending.get(decision_id)
        if joined is None or joined.final:
            raise RejectedRow("unknown decision", f"no decision {decision_id!r} waits for a reward")
        joined.reward = get_reward(values, LogColumns())
        joined.final = values.get("final") is not False

    def _row(self, joined: _Joined, share: float) -> LogRow:
        reward = joined.reward if joined.final else self._default
        if reward is None:
            return LogRow(None, share, "no reward", "the log ends before its reward; pass a default reward")
        return _row({**joined.values, "reward": reward}, LogColumns(), share)


def _read(form: str, path: Path, columns: LogColumns, default_reward: float | None) -> Iterator[LogRow]:
    """Yield the decisions of a file."""
    joiner = Joiner(default_reward)
    for record in read_records(path, form, columns):
        values = record.values
        if values is None:
            yield LogRow(None, record.share, "invalid row", record.problem)
        elif is_event(values):
            yield from joiner.add(values, record.share)
        else:
            yield _row(values, columns, record.share, default_reward)
    yield from joiner.finish()


read_jsonl = partial(_read, "jsonl")
read_csv = partial(_read, "csv")
read_parquet = partial(_read, "parquet")


def _row(
    values: Mapping[str, Any], columns: LogColumns, share: float, default_reward: float | None = None
) -> LogRow:
    try:
        arm = to_arm(get_arm(values, columns))
        if arm is None:
            raise RejectedRow(
                "unknown arm", f"an arm must be a name or an integer, got {values[columns.arm]!r}"
            )
        if default_reward is not None and values.get(columns.reward) in (None, ""):
            reward = default_reward
        else:
            reward = get_reward(values, columns)
        propensity = get_propensity(values, columns)
        context, time = get_context(values, columns), values.get(_TIME)
        decision = LoggedDecision(
            context,
            arm,
            reward,
            propensity,
            _eligible(values, arm),
            time if isinstance(time, float) else None,
        )
        return LogRow(decision, share)
    except RejectedRow as error:
        return LogRow(None, share, error.reason, str(error))


def _eligible(values: Mapping[str, Any], chosen: Arm) -> tuple[Arm, ...] | None:
    """Return the eligible arms of a row: a list, or in an export of the service all arms at that time."""
    listed = _nested(values.get(_ELIGIBLE))
    if not isinstance(listed, list):
        probabilities = _nested(values.get(_PROBABILITIES)) if is_event(values) else None
        if not isinstance(probabilities, dict):
            return None
        listed = list(probabilities)
    arms = tuple(arm for arm in map(to_arm, listed) if arm is not None)
    if chosen not in arms:
        raise RejectedRow(
            "invalid eligible arms", f"the chosen arm {chosen!r} is not among the eligible ones"
        )
    return arms


def _nested(value: Any) -> Any:
    """Return a value that Parquet exports of the service hold as JSON."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
