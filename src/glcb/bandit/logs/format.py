"""What happens to a bandit, as lines of a log.

    {"event": "decision", "id": …, "time": …, "arm": …, "propensity": …, "context": …}
    {"event": "reward", "id": …, "time": …, "reward": …}
    {"event": "outcome", "id": …, "time": …, "reward": …}

A reward was learned at once, unless it says ``"final": false``: then others may have come after it, and what
they amount to was learned with the outcome, when the time of the decision was over. An outcome can also be a
default, learned because no reward came. A ``key`` stands beside rewards that could be sent twice.
"""

import reprlib
from typing import Any

from glcb._types import Arm
from glcb.bandit.encoding.rows import as_row
from glcb.bandit.encoding.values import nature, shortened

Event = dict[str, Any]

KINDS = ("decision", "reward", "outcome")
_INFINITE = 1e308
"""JSON has no infinity; numbers as large as this are taken for one."""


def decision(name: str, time: float, arm: Arm, propensity: float, context: Any) -> Event:
    """Return the line of a decision; a propensity of 0 stands for one that is not known."""
    known = {"propensity": propensity} if propensity else {}
    return {**_begin("decision", name, time), "arm": arm, **known, "context": plain_context(context)}


def reward(name: str, time: float, value: float, key: str | int | None, final: bool) -> Event:
    """Return the line of a reward."""
    more = {**({} if key is None else {"key": key}), **({} if final else {"final": False})}
    return {**_begin("reward", name, time), "reward": value, **more}


def outcome(name: str, time: float, value: float) -> Event:
    """Return the line of what was learned when the time of a decision was over."""
    return {**_begin("outcome", name, time), "reward": value}


def _begin(kind: str, name: str, time: float) -> Event:
    return {"event": kind, "id": name, "time": time}


def plain_context(context: Any) -> dict[str, Any] | list[Any]:
    """Return a context in the form that JSON can hold, and that is encoded as the original is.

    >>> plain_context({"age": 31, 7: float("nan"), "spent": float("inf"), "cart": {"items": 3}})
    {'age': 31, '7': None, 'spent': 1e+308, 'cart': ["{'items': 3}"]}
    >>> plain_context((0.5, "FR", True, object()))
    [0.5, 'FR', True, None]
    """
    row, length = as_row(context)
    if length is not None:  # a list in a list would be taken for many contexts
        return [value if not isinstance(value, list) else None for value in map(_plain, row.values())]
    return {shortened(str(name)): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    kind, plain = nature(value)
    if kind == "infinite":
        return _INFINITE
    if kind == "unreadable":  # a list is as unreadable as whatever this was
        return [reprlib.repr(value)]
    if kind == "text":
        return shortened(plain)
    return value if type(value) is int else plain
