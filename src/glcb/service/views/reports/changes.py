"""Changes of an experiment in words."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from glcb._api.guardrails import Change, SettingChange

_ACTIONS = {
    "created": "experiment created",
    "arm_added": "arm “{arm}” added",
    "arm_removed": "arm “{arm}” removed",
    "arm_paused": "arm “{arm}” paused",
    "arm_resumed": "arm “{arm}” resumed",
    "arms_changed": "catalog of arms changed",
    "model_uploaded": "model uploaded",
    "guardrail_broken": "guardrail broken",
    "recovered": "continued from the last good state",
}
_STATES = {"paused": "experiment paused", "running": "experiment resumed", "archived": "experiment archived"}
_SHARES = ("exploration", "holdout", "traffic")
_MAX_VALUE = 60


def changes_in_words(changes: Iterable[Change], start: datetime, end: datetime) -> tuple[str, ...]:
    """Return the changes of a period, oldest first: when, what, by whom and why."""
    own = [change for change in changes if start <= change.at <= end and change.action != "created"]
    return tuple(_sentence(change) for change in sorted(own, key=lambda change: change.sequence))


def _sentence(change: Change) -> str:
    what = ", ".join(map(_setting, change.changes)) or _ACTIONS.get(change.action, "settings saved")
    reason = f" ({change.reason})" if change.reason else ""
    at = f"{change.at.day} {change.at:%b, %H:%M} UTC"
    return f"{at}: {what.format(arm=change.arm) if not change.changes else what}, by {change.by}{reason}"


def _setting(change: SettingChange) -> str:
    if change.setting == "state" and change.after in _STATES:
        return _STATES[change.after]
    name = change.setting.replace("_", " ")
    before, after = (_value(change.setting, value) for value in (change.before, change.after))
    if change.shortened or max(len(before), len(after)) > _MAX_VALUE:
        return f"{name} changed"
    return f"{name} {before} → {after}"


def _value(setting: str, value: Any) -> str:
    if value is None:
        return "none"
    if setting in _SHARES:
        return f"{100 * value:g}%"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
