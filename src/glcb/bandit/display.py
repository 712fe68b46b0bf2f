"""The text and HTML representations of a bandit."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from glcb._html import paragraph, table, view
from glcb._types import Arm
from glcb.bandit.config import BanditConfig
from glcb.bandit.encoding.schema import Schema, describe

_MAX_ARMS = 4
_DEFAULTS = {declared.name: declared.default for declared in fields(BanditConfig)}
_ALWAYS_SHOWN = ("arms", "policy", "rewards", "exploration", "seed")


def to_line(arguments: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Return a bandit in one line: main arguments, non-default arguments and counts."""
    arms = arguments["arms"]
    shown = {**arguments, "arms": arms if len(arms) <= _MAX_ARMS else [*arms[: _MAX_ARMS - 1], "…"]}
    text = ", ".join(
        f"{name}={value!r}"
        for name, value in shown.items()
        if name in _ALWAYS_SHOWN or value != _DEFAULTS[name]
    )
    return f"Bandit({text}; {_describe_counts(counts)})"


def to_html(
    arguments: Mapping[str, Any],
    counts: Mapping[str, int],
    reward_counts: Mapping[Arm, int],
    schema: Schema | None,
) -> str:
    """Return a bandit as HTML: its counts, arms and features."""
    head = ", ".join(f"{name} {arguments[name]}" for name in ("policy", "rewards", "exploration"))
    arms = [(str(arm), f"{count:,}") for arm, count in reward_counts.items()]
    parts = [paragraph(_describe_counts(counts)), table(("arm", "rewards learned"), arms)]
    if schema is not None:
        features = [(name, describe(feature)) for name, feature in schema.features.items()]
        parts.append(table(("feature", "description"), features))
        parts.append(paragraph(f"{schema.width} slots, {schema.free} free"))
    return view(f"Bandit ({head})", *parts)


def _describe_counts(counts: Mapping[str, int]) -> str:
    total = counts["decisions"]
    states = [
        f"{count:,} {name.replace('_', ' ')}"
        for name, count in counts.items()
        if count and name != "decisions"
    ]
    text = f"{total:,} decision" if total == 1 else f"{total:,} decisions"
    return f"{text}: {', '.join(states)}" if states else text
