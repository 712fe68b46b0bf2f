"""Event logs of a bandit and tables with one row per decision, as JSON lines, CSV or Parquet."""

import math
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from glcb._errors import InvalidContext, InvalidInput
from glcb._types import Arm
from glcb.bandit.candidates import has_features, parse_arms
from glcb.bandit.logs.format import (
    LogColumns,
    RejectedRow,
    get_arm,
    get_context,
    get_propensity,
    get_reward,
    is_event,
    plain_context,
    to_arm,
)
from glcb.bandit.logs.reader import read_records
from glcb.bandit.slots import SEPARATOR
from glcb.evaluate.rows import MIN_PROPENSITY, LoggedDecision, LogRow

MAX_PENDING = 100_000
"""Maximum number of decisions waiting for a reward; beyond it, the oldest stays without one."""
_ELIGIBLE, _ARMS, _PROBABILITIES, _TIME = "eligible", "arms", "probabilities", "time"

Candidates = Mapping[Arm, Mapping[str, Any]]
"""The features of the arms to choose from."""


class _Joined:
    """A ranking of an event log and the rewards of its slots, once they are known.

    A decision is a ranking with one slot.
    """

    __slots__ = ("candidates", "examined", "rewards", "settled", "values")

    def __init__(self, values: Mapping[str, Any], slots: int, candidates: Candidates | None) -> None:
        self.values, self.candidates = values, candidates
        self.rewards: list[float | None] = [None] * slots
        self.settled, self.examined = [False] * slots, [True] * slots

    @property
    def final(self) -> bool:
        return all(self.settled)


class Joiner:
    """Joins decisions with their rewards, in the order of the decisions."""

    def __init__(self, default_reward: float | None) -> None:
        self._default = default_reward
        self._pending: OrderedDict[str, _Joined] = OrderedDict()
        self._catalog: dict[Arm, Mapping[str, Any]] | None = None

    def add(self, values: Mapping[str, Any], share: float) -> Iterator[LogRow]:
        """Add an event; yield the decisions whose reward is now known, or why the event is rejected."""
        try:
            self._add(values)
        except RejectedRow as error:
            yield LogRow(None, share, error.reason, str(error))
        while self._pending:
            first = next(iter(self._pending.values()))
            if not first.final and len(self._pending) <= MAX_PENDING:
                return
            self._pending.popitem(last=False)
            yield from self._rows(first, share)

    def finish(self) -> Iterator[LogRow]:
        """Yield the remaining decisions."""
        for joined in self._pending.values():
            yield from self._rows(joined, 1.0)
        self._pending.clear()

    def _add(self, values: Mapping[str, Any]) -> None:
        event = values["event"]
        if event == "arms":
            self._change_catalog(values)
            return
        decision_id = str(values["id"])
        if event == "decision":
            self._pending[decision_id] = _Joined(values, 1, None)
            return
        if event == "ranking":
            listed = values.get("slots")
            if not isinstance(listed, list) or not listed or not all(isinstance(s, Mapping) for s in listed):
                raise RejectedRow("invalid row", "a ranking needs a list of slots")
            self._pending[decision_id] = _Joined(values, len(listed), self._candidates(values))
            return
        joined, slot = self._find(decision_id)
        if event == "unexamined":
            joined.rewards[slot], joined.examined[slot], joined.settled[slot] = 0.0, False, True
            return
        joined.rewards[slot] = get_reward(values, LogColumns())
        joined.settled[slot] = values.get("final") is not False

    def _find(self, decision_id: str) -> tuple[_Joined, int]:
        """Return the pending ranking and the slot of an id."""
        joined, slot = self._pending.get(decision_id), 0
        ranking, separator, number = decision_id.rpartition(SEPARATOR)
        if joined is None and separator and number.isdecimal():
            joined, slot = self._pending.get(ranking), int(number)
        if joined is None or slot >= len(joined.settled) or joined.settled[slot]:
            raise RejectedRow("unknown decision", f"no decision {decision_id!r} waits for a reward")
        return joined, slot

    def _change_catalog(self, values: Mapping[str, Any]) -> None:
        if isinstance(values.get("arms"), list):
            self._catalog = get_candidates(values) or {}
            return
        removed = set(map(to_arm, values.get("removed") or ()))
        kept = {arm: own for arm, own in (self._catalog or {}).items() if arm not in removed}
        self._catalog = {**kept, **(get_candidates({"arms": values.get("added")}) or {})}

    def _candidates(self, values: Mapping[str, Any]) -> Candidates | None:
        """Return the candidates of a ranking: from the request, or from the catalog."""
        listed = get_candidates(values)
        if listed is not None or self._catalog is None:
            return listed
        eligible = values.get(_ELIGIBLE)
        if not isinstance(eligible, list):
            return self._catalog
        return {arm: self._catalog[arm] for arm in map(to_arm, eligible) if arm in self._catalog}

    def _rows(self, joined: _Joined, share: float) -> Iterator[LogRow]:
        rewards = [
            value if settled else self._default
            for value, settled in zip(joined.rewards, joined.settled, strict=True)
        ]
        if any(reward is None for reward in rewards):
            yield LogRow(None, share, "no reward", "the log ends before its reward; pass a default reward")
        elif joined.values["event"] == "decision":
            yield _row({**joined.values, "reward": rewards[0]}, LogColumns(), share)
        else:
            yield from _ranking(joined, rewards, share)


def _ranking(joined: _Joined, rewards: Sequence[Any], share: float) -> list[LogRow]:
    """Return a row for each slot of a ranking, or a row with the reason for its rejection."""
    try:
        context = _context(joined.values, LogColumns())
        slots = joined.values["slots"]
        arms = tuple(_arm(slot, LogColumns()) for slot in slots)
        propensities = [get_propensity(slot, LogColumns()) for slot in slots]
        if len(set(arms)) != len(arms):
            raise RejectedRow("invalid row", "an arm occurs twice in a ranking")
        candidates = joined.candidates
        eligible = _eligible(joined.values) if candidates is None else tuple(candidates)
        for arm in arms:
            _check_eligible(arm, eligible)
        if not all(propensities):
            propensities = [0.0] * len(arms)
        elif math.prod(propensities) < MIN_PROPENSITY:
            raise RejectedRow(
                "invalid propensity", f"a ranking must have a propensity of at least {MIN_PROPENSITY:g}"
            )
    except RejectedRow as error:
        return [LogRow(None, share, error.reason, str(error))]
    return [
        LogRow(
            LoggedDecision(
                context,
                arm,
                rewards[slot],
                propensities[slot],
                eligible,
                candidates,
                arms[:slot],
                joined.examined[slot],
                _time(joined.values),
            ),
            share,
        )
        for slot, arm in enumerate(arms)
    ]


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
        arm = _arm(values, columns)
        if default_reward is not None and values.get(columns.reward) in (None, ""):
            reward = default_reward
        else:
            reward = get_reward(values, columns)
        propensity = get_propensity(values, columns)
        candidates, eligible = get_candidates(values), _eligible(values)
        if eligible is None and candidates is not None:
            eligible = tuple(candidates)
        _check_eligible(arm, eligible)
        context, time = _context(values, columns), _time(values)
        decision = LoggedDecision(context, arm, reward, propensity, eligible, candidates, time=time)
        return LogRow(decision, share)
    except RejectedRow as error:
        return LogRow(None, share, error.reason, str(error))


def _context(values: Mapping[str, Any], columns: LogColumns) -> Any:
    """Return the context of a row; raise RejectedRow if no bandit could use it."""
    context = get_context(values, columns)
    try:
        plain_context(context)
    except InvalidContext as error:
        raise RejectedRow("invalid context", str(error)) from None
    return context


def _arm(values: Mapping[str, Any], columns: LogColumns) -> Arm:
    arm = to_arm(get_arm(values, columns))
    if arm is None:
        raise RejectedRow("unknown arm", f"an arm must be a name or an integer, got {values[columns.arm]!r}")
    return arm


def _eligible(values: Mapping[str, Any]) -> tuple[Arm, ...] | None:
    """Return the eligible arms of a row: a list, or in an export of the service all current arms."""
    listed = values.get(_ELIGIBLE)
    if not isinstance(listed, list):
        probabilities = values.get(_PROBABILITIES) if is_event(values) else None
        if not isinstance(probabilities, dict):
            return None
        listed = list(probabilities)
    return tuple(arm for arm in map(to_arm, listed) if arm is not None)


def _check_eligible(chosen: Arm, eligible: Collection[Arm] | None) -> None:
    if eligible is not None and chosen not in eligible:
        raise RejectedRow(
            "invalid eligible arms", f"the chosen arm {chosen!r} is not among the eligible ones"
        )


def get_candidates(values: Mapping[str, Any]) -> dict[Arm, Mapping[str, Any]] | None:
    """Return the features of the candidates of a row, which JSON lines can have as a list ``arms``.

    >>> get_candidates({"arms": [{"arm": "m17", "features": {"price": 3}}]})
    {'m17': {'price': 3}}
    """
    listed = values.get(_ARMS)
    if not isinstance(listed, list) or not has_features(listed):
        return None
    try:
        return parse_arms(listed)
    except InvalidInput as error:
        raise RejectedRow("invalid arms", str(error)) from None


def _time(values: Mapping[str, Any]) -> float | None:
    time = values.get(_TIME)
    return time if isinstance(time, float) else None
