"""The settings with which policies played."""

import inspect
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from glcb._errors import InvalidInput
from glcb._types import Rewards
from glcb.bench.report.document import Cell, Group, Row, Table
from glcb.bench.report.selection import Player, Selection
from glcb.bench.run import Record
from glcb.policies import registry
from glcb.policies.glcb.policy import GLCB
from glcb.policies.glcb.settings import Settings

_COMMON = {"arms", "features", "rewards", "seed"}
_KINDS: tuple[tuple[Rewards, str], ...] = (("binary", "0/1 rewards"), ((0.0, 1.0), "rewards on a range"))


def in_words(record: Record) -> str:
    """Return the settings of the policy that left this record; those of GLCB stand in a table."""
    try:
        entry = registry.get(record.policy)
    except InvalidInput:
        return _listed(record.settings)
    if entry.version != record.version:
        return ", ".join(filter(None, [_listed(record.settings), f"those of version {record.version}"]))
    if issubclass(entry.make, GLCB):
        return "see below"
    return _listed(_defaults(entry.make) | record.settings) or "none"


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in settings.items())


def _defaults(policy: type) -> dict[str, Any]:
    """Return the settings that a policy and those that it builds on take, beyond what all policies take.

    What is None is switched off, and needs no mention.
    """
    return {
        parameter.name: parameter.default
        for maker in policy.__mro__
        if "__init__" in vars(maker)
        for parameter in inspect.signature(vars(maker)["__init__"]).parameters.values()
        if parameter.default not in (parameter.empty, None) and parameter.name not in _COMMON
    }


def hyper_parameters(selection: Selection, order: Sequence[Player]) -> Table | None:
    """Return those of GLCB: all variants beside each other, if any was played in its present version."""
    found: list[tuple[str, Settings]] = []
    for player in order:
        found += _of_glcb(player, selection.first(player))
    if not found:
        return None
    columns = [{name: _shown(value) for name, value in asdict(settings).items()} for _, settings in found]
    rows = [
        Row(Cell(name.replace("_", " ")), tuple(Cell(column[name]) for column in columns))
        for name in columns[0]
    ]
    return Table(
        "The hyper-parameters of GLCB, which depend on the kind of reward.",
        ("hyper-parameter", *(title for title, _ in found)),
        (Group("", tuple(rows)),),
    )


def _of_glcb(player: Player, record: Record) -> list[tuple[str, Settings]]:
    try:
        entry = registry.get(player.policy)
        if not issubclass(entry.make, GLCB) or entry.version != record.version:
            return []
        return [
            (f"{player.title}: {kind}", entry.make(2, 1, rewards=rewards, **record.settings).settings)
            for rewards, kind in _KINDS
        ]
    except InvalidInput:
        return []


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
