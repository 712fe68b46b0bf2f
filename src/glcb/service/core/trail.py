"""The trail of changes: who changed what, when and why.

The newest changes are part of the state of an experiment, so that they outlive their events, which are pruned
after a while.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from glcb._api.guardrails import Action, Change, SettingChange
from glcb._api.requests import ExperimentSettings, encode

MAX_CHANGES = 1000
"""Number of changes that are kept."""
_MAX_BYTES = 2000
"""Values of settings that are longer are not kept."""


class Trail(Struct):
    """The newest changes of an experiment, oldest first."""

    changes: list[Change] = msgspec.field(default_factory=list)

    def add(
        self,
        sequence: int,
        at: float,
        by: str,
        action: Action,
        *,
        arm: str | None = None,
        reason: str | None = None,
        changes: Sequence[SettingChange] = (),
    ) -> None:
        """Add a change; forget the oldest one if there are too many."""
        time = datetime.fromtimestamp(at, UTC)
        self.changes.append(
            Change(
                sequence=sequence,
                at=time,
                by=by,
                action=action,
                arm=arm,
                reason=reason,
                changes=tuple(changes),
            )
        )
        del self.changes[:-MAX_CHANGES]

    def page(self, limit: int, before: int) -> tuple[Change, ...]:
        """Return the newest changes before an event, or before now if it is 0; the newest first."""
        older = [one for one in self.changes if not before or one.sequence < before]
        return tuple(reversed(older[-limit:]))


def setting_changes(before: ExperimentSettings, after: ExperimentSettings) -> list[SettingChange]:
    """Return the settings that differ, except the arms."""
    return [
        setting_change(name, getattr(before, name), getattr(after, name))
        for name in before.__struct_fields__
        if name not in ("arms", "paused_arms") and getattr(before, name) != getattr(after, name)
    ]


def setting_change(name: str, before: Any, after: Any) -> SettingChange:
    """Return a setting before and after a change, unless its values are too long."""
    values = [None if value is UNSET else msgspec.to_builtins(value) for value in (before, after)]
    if sum(len(encode(value)) for value in values) > _MAX_BYTES:
        return SettingChange(setting=name, shortened=True)
    return SettingChange(setting=name, before=values[0], after=values[1])
