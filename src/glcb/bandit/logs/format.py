"""The format of logs: event lines that a bandit writes, and columns of tables from other systems.

A log of a bandit is a file of JSON lines. It begins with a header, followed by one line per event::

    {"glcb_log": 4, "glcb": "0.2.0"}
    {"event": "decision", "id": …, "time": …, "arm": …, "propensity": …, "context": …}
    {"event": "reward", "id": …, "time": …, "reward": …}
    {"event": "outcome", "id": …, "time": …, "reward": …}
    {"event": "ranking", "id": …, "time": …, "slots": [{"arm": …, "propensity": …}, …], "context": …}
    {"event": "arms", "time": …, "arms": [{"arm": …, "features": …}, …]}
    {"event": "unexamined", "id": …, "time": …}

A reward was learned when it arrived, unless it has ``"final": false``. In that case, the outcome holds the
reward that was learned later: at the label age, or, as an aggregate, when the timeout passed. An outcome can
also be the default reward. If such an outcome has ``"final": false``, it was learned at the label age, and a
reward or the outcome at the timeout follows. So every decision has at most one final line. The line of a
reward includes its ``idempotency_key``, if it has one. Logs can be concatenated; each part keeps its header.

Rankings, and decisions among arms with features, are lines of the event "ranking". The slots of a ranking are
decisions: the first has the id of the ranking, the others that id with ".1", ".2", …. ``arms`` lists the
candidates of the request with their features. Without it, the candidates are the catalog, or its arms in
``eligible``. The line "arms" at the beginning of the log holds the catalog; later lines of this kind list the
arms that were ``added`` or changed, and ``removed``. Slots that were not examined are not learned.

A table has one row per decision, with columns for the arm, the reward, the propensity and the features.
"""

import json
import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glcb._errors import LogError
from glcb._formats import LOG
from glcb._text import is_integer, is_unicode
from glcb._types import Arm
from glcb._version import __version__
from glcb.bandit.encoding.structured import fits_64_bits, structure, to_plain
from glcb.bandit.encoding.values import classify_value, shorten, to_row, to_text, unsupported

Event = dict[str, Any]

VERSION_FIELD = "glcb_log"
EVENTS = ("decision", "ranking", "arms", "reward", "outcome", "unexamined")
NESTED_FIELDS = ("slots", "arms", "added", "removed", "eligible", "probabilities")
"""Fields of events that are lists or objects."""
_INFINITE = 1e308
"""Represents infinity, which JSON does not support."""


# ---- event lines ------------------------------------------------------------------------------------


def header_event() -> Event:
    """Return the first line of a log."""
    return {VERSION_FIELD: LOG.number, "glcb": __version__}


def decision_event(decision_id: str, time: float, arm: Arm, propensity: float, context: Any) -> Event:
    """Return the line of a decision; an unknown propensity is passed as 0 and omitted."""
    event = {"event": "decision", "id": decision_id, "time": time, "arm": arm}
    if propensity:
        event["propensity"] = propensity
    return {**event, "context": plain_context(context)}


def ranking_event(
    ranking_id: str,
    time: float,
    slots: Sequence[tuple[Arm, float]],
    context: Any,
    arms: list[Event] | None,
    eligible: list[Arm] | None,
) -> Event:
    """Return the line of a ranking. Candidates are omitted if they are the catalog."""
    event: Event = {"event": "ranking", "id": ranking_id, "time": time}
    event["slots"] = [
        {"arm": arm, **({"propensity": propensity} if propensity else {})} for arm, propensity in slots
    ]
    if arms is not None:
        event["arms"] = arms
    if eligible is not None:
        event["eligible"] = eligible
    return {**event, "context": plain_context(context)}


def arms_event(
    time: float, arms: list[Event] | None = None, added: list[Event] | None = None, removed: Any = None
) -> Event:
    """Return the line of a catalog: all of its arms, or the added, changed and removed arms."""
    event: Event = {"event": "arms", "time": time}
    if arms is not None:
        return {**event, "arms": arms}
    return {**event, "added": added or [], "removed": list(removed or ())}


def unexamined_event(slot_id: str, time: float) -> Event:
    """Return the line of a slot that was not examined."""
    return {"event": "unexamined", "id": slot_id, "time": time}


def reward_event(decision_id: str, time: float, value: float, key: str | int | None, final: bool) -> Event:
    """Return the line of a reward."""
    event: Event = {"event": "reward", "id": decision_id, "time": time, "reward": value}
    if key is not None:
        event["idempotency_key"] = key
    if not final:
        event["final"] = False
    return event


def outcome_event(decision_id: str, time: float, value: float, final: bool) -> Event:
    """Return the line of the reward that was learned at the label age or the timeout of a decision."""
    event: Event = {"event": "outcome", "id": decision_id, "time": time, "reward": value}
    if not final:
        event["final"] = False
    return event


def plain_context(context: Any) -> dict[str, Any] | list[Any]:
    """Return an equivalent JSON-serializable context; a serializable context is returned unchanged.

    Examples
    --------
    >>> plain_context({"age": 31, 7: float("nan"), "spent": float("inf"), "cart": {"items": 3}})
    {'age': 31, '7': None, 'spent': 1e+308, 'cart.items': 3}
    >>> plain_context((0.5, "FR", True))
    [0.5, 'FR', True]
    """
    row, length = to_row(context)
    plain = {shorten(str(name)): _plain(name, value) for name, value in row.items()}
    if length is None:
        return plain
    # A list in a list would be read as several contexts.
    return [None if isinstance(value, list | dict) else value for value in plain.values()]


def _plain(name: object, value: Any) -> Any:
    kind, plain = classify_value(value)
    if kind == "infinite":
        return _INFINITE
    if kind == "unsupported":
        if structure(value) is not None:
            return to_plain(value)
        is_list = isinstance(value, list | tuple)  # a schema can make tags of mixed values
        if not is_list or any(classify_value(item)[0] == "unsupported" for item in value):
            raise unsupported(name, value)
        return [_plain(name, item) for item in value]
    if kind == "text":
        return shorten(plain)
    return value if type(value) is int and fits_64_bits(value) else plain


def is_event(values: Mapping[str, Any]) -> bool:
    """Return whether a record is an event of a bandit's log, not a row of a table."""
    event = values.get("event")
    return isinstance(event, str) and event in EVENTS and (event == "arms" or values.get("id") is not None)


def check_version(version: object, path: object) -> None:
    """Raise LogError unless this version of glcb can read a log with this format version."""
    if version != LOG.number or type(version) is not int:
        raise LOG.mismatch(f"the log {path}", reprlib.repr(version))


def no_header_error(path: object) -> LogError:
    """Return the error for an event log without a header."""
    return LogError(
        f"{path} has events, but no header that says its log format; glcb {__version__} reads format "
        f"{LOG.number}: use an earlier copy"
    )


# ---- columns ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogColumns:
    """The columns of a log. All other columns are features, unless there is a column of contexts.

    Columns with the default names of these roles, and ``id``, ``time`` and ``idempotency_key``, are never
    features.

    Parameters
    ----------
    context : str, default "context"
        Column with the whole context as a JSON object.
    arm : str, default "arm"
        Column with the chosen arm.
    reward : str, default "reward"
        Column with the reward.
    propensity : str, default "propensity"
        Column with the probability of the chosen arm; optional.
    ignore : collection of str
        Columns that are not features.
    arm_features : str, default "arm_features"
        Column with the features of the chosen arm as a JSON object; optional.
    """

    context: str = "context"
    arm: str = "arm"
    reward: str = "reward"
    propensity: str = "propensity"
    ignore: Collection[str] = ()
    arm_features: str = "arm_features"


NOT_FEATURES = frozenset(
    ("id", "time", "idempotency_key", "context", "arm", "reward", "propensity", "arm_features")
)
"""Columns of a table that are never features, whichever columns have their roles."""


class RejectedRow(Exception):
    """A row that cannot be learned."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ArmNames:
    """Finds the arm for a value in a log, which may be a string where the bandit has an integer.

    Examples
    --------
    >>> names = ArmNames((0, 1, "news"))
    >>> names.find("news"), names.find("1"), names.find(1.0), names.find("1.0")
    ('news', 1, 1, 1)
    """

    def __init__(self, arms: tuple[Arm, ...]) -> None:
        self.arms = arms
        self._names: dict[str, Arm] = {}
        for arm in sorted(arms, key=lambda arm: isinstance(arm, str)):
            if isinstance(arm, int):  # integers in a column with gaps are read as floats
                self._names[f"{arm}.0"] = arm
            self._names[str(arm)] = arm
        self._integers = {arm for arm in arms if isinstance(arm, int)}

    def find(self, value: Any) -> Arm:
        """Return the arm for a value; raise RejectedRow if there is none."""
        if type(value) is int and value in self._integers:
            return value
        kind, plain = classify_value(value)
        name = value if kind == "text" else to_text(kind, plain) if kind == "number" else None
        if name not in self._names:
            arms = ", ".join(map(repr, self.arms[:8])) + (", …" if len(self.arms) > 8 else "")
            raise RejectedRow("unknown arm", f"there is no arm {reprlib.repr(value)}; the arms are {arms}")
        return self._names[name]


def to_arm(value: Any) -> Arm | None:
    """Return the arm that a value in a log represents, or None.

    Examples
    --------
    >>> to_arm("news"), to_arm("007"), to_arm(7), to_arm(7.0), to_arm(None)
    ('news', '007', 7, 7, None)
    """
    if type(value) is int:
        return value
    kind, plain = classify_value(value)
    if kind == "number":
        name = to_text(kind, plain)
        return int(name) if is_integer(name) else name
    return plain if kind == "text" and plain and is_unicode(plain) else None


def get_context(values: Mapping[str, Any], columns: LogColumns) -> Any:
    """Return the context of a record: its own column, or all columns that have no other role."""
    if columns.context not in values:
        other = {columns.arm, columns.reward, columns.propensity, columns.arm_features, *columns.ignore}
        other |= NOT_FEATURES
        features = {name: value for name, value in values.items() if name not in other}
        if not features or is_event(values):
            raise RejectedRow("invalid context", "it has no context")
        return features
    context = values[columns.context]
    if isinstance(context, str):
        try:
            context = json.loads(context)
        except (ValueError, RecursionError) as error:
            raise RejectedRow("invalid context", f"its context is not JSON: {error}") from None
    if context is None:
        raise RejectedRow("invalid context", "it has no context")
    return context


def get_arm_features(values: Mapping[str, Any], columns: LogColumns) -> Mapping[str, Any] | None:
    """Return the features of the chosen arm, or None if the record has none."""
    features = values.get(columns.arm_features)
    if isinstance(features, str):
        try:
            features = json.loads(features)
        except (ValueError, RecursionError) as error:
            raise RejectedRow("invalid arm", f"its {columns.arm_features!r} is not JSON: {error}") from None
    if features is not None and not isinstance(features, Mapping):
        raise RejectedRow("invalid arm", f"its {columns.arm_features!r} is not an object")
    return features


def get_arm(values: Mapping[str, Any], columns: LogColumns) -> Any:
    """Return the arm of a record as the log spells it."""
    arm = values.get(columns.arm)
    if arm is None or arm == "":
        raise RejectedRow("unknown arm", f"it has no {columns.arm!r}")
    return arm


def get_reward(values: Mapping[str, Any], columns: LogColumns) -> float:
    """Return the reward of a record; the bandit checks its range."""
    kind, value = classify_value(values.get(columns.reward))
    if kind == "missing":
        raise RejectedRow("missing reward", f"it has no {columns.reward!r}")
    if kind not in ("number", "boolean"):
        raise RejectedRow("invalid reward", f"the reward must be a number, got {values[columns.reward]!r}")
    return float(value)


def get_propensity(values: Mapping[str, Any], columns: LogColumns) -> float:
    """Return the probability of the chosen arm, or 0 if it is unknown."""
    kind, value = classify_value(values.get(columns.propensity))
    if kind == "missing":
        return 0.0
    if kind != "number" or not 0 < value <= 1:
        shown = reprlib.repr(values[columns.propensity])
        raise RejectedRow("invalid propensity", f"a propensity must be in (0, 1], got {shown}")
    return float(value)
