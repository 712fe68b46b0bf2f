"""What stands in the columns of a record: context, arm, reward, and propensity where it is known."""

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from glcb._text import is_integer, is_unicode
from glcb._types import Arm
from glcb.bandit.encoding.values import as_text, nature
from glcb.bandit.logs.format import KINDS
from glcb.bandit.logs.reader import Layout


class Refused(Exception):
    """A row that nothing can come of."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ArmNames:
    """Finds the arm that a log means: it may be a text there, and a number in the bandit.

    >>> names = ArmNames((0, 1, "news"))
    >>> names.find("news"), names.find("1"), names.find(1.0), names.find("1.0")
    ('news', 1, 1, 1)
    """

    def __init__(self, arms: tuple[Arm, ...]) -> None:
        self.arms = arms
        self._names: dict[str, Arm] = {}
        for arm in sorted(arms, key=lambda arm: isinstance(arm, str)):
            if isinstance(arm, int):  # a column with gaps has numbers with a point
                self._names[f"{arm}.0"] = arm
            self._names[str(arm)] = arm
        self._numbers = {arm for arm in arms if isinstance(arm, int)}

    def find(self, given: Any) -> Arm:
        """Return the arm, or refuse the row."""
        if type(given) is int and given in self._numbers:
            return given
        kind, plain = nature(given)
        name = given if kind == "text" else as_text(kind, plain) if kind == "number" else None
        if name not in self._names:
            known = ", ".join(map(repr, self.arms[:8])) + (", …" if len(self.arms) > 8 else "")
            raise Refused("unknown arm", f"there is no arm {reprlib.repr(given)}; the arms are {known}")
        return self._names[name]


def arm_called(given: Any) -> Arm | None:
    """Return the arm that :class:`ArmNames` will have to find where a log says this; None if it is none.

    >>> arm_called("news"), arm_called("007"), arm_called(7), arm_called(7.0), arm_called(None)
    ('news', '007', 7, 7, None)
    """
    if type(given) is int:
        return given
    kind, plain = nature(given)
    if kind == "number":
        name = as_text(kind, plain)
        return int(name) if is_integer(name) else name
    return plain if kind == "text" and plain and is_unicode(plain) else None


def is_event(values: Mapping[str, Any]) -> bool:
    """Return whether a record is a line of a bandit's own log."""
    event = values.get("event")
    return isinstance(event, str) and event in KINDS and values.get("id") is not None


def context_of(values: Mapping[str, Any], layout: Layout) -> Any:
    """Return the context of a record: in a column of its own, or all columns that nobody else needs."""
    if layout.context not in values:
        apart = {layout.arm, layout.reward, layout.propensity, *layout.ignore}
        features = {name: value for name, value in values.items() if name not in apart}
        if not features or is_event(values):
            raise Refused("no usable context", "it has no context")
        return features
    context = values[layout.context]
    if isinstance(context, str):
        try:
            context = json.loads(context)
        except (ValueError, RecursionError) as error:
            raise Refused("no usable context", f"its context is no JSON: {error}") from None
    if context is None:
        raise Refused("no usable context", "it has no context")
    return context


def arm_of(values: Mapping[str, Any], layout: Layout) -> Any:
    """Return the arm of a record as it stands there."""
    arm = values.get(layout.arm)
    if arm is None or arm == "":
        raise Refused("unknown arm", f"it has no {layout.arm!r}")
    return arm


def reward_of(values: Mapping[str, Any], layout: Layout) -> float:
    """Return the reward of a record; whether it can be one, the bandit knows."""
    kind, value = nature(values.get(layout.reward))
    if kind == "missing":
        raise Refused("no reward", f"it has no {layout.reward!r}")
    if kind not in ("number", "boolean"):
        raise Refused("impossible reward", f"a reward is a number, got {values[layout.reward]!r}")
    return float(value)


def propensity_of(values: Mapping[str, Any], layout: Layout) -> float:
    """Return the probability with which the arm was played, or 0 if nobody knows."""
    kind, value = nature(values.get(layout.propensity))
    if kind == "missing":
        return 0.0
    if kind != "number" or not 0 < value <= 1:
        shown = reprlib.repr(values[layout.propensity])
        raise Refused("impossible propensity", f"a propensity lies above 0 and up to 1, got {shown}")
    return float(value)
