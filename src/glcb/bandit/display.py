"""The text and HTML representations of a bandit."""

from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import Any

from glcb._types import Arm
from glcb.bandit.config import BanditConfig
from glcb.bandit.encoding.schema import Schema, describe

_MAX_ARMS = 4
_MAX_ROWS = 50
_DEFAULTS = {declared.name: declared.default for declared in fields(BanditConfig)}
_ALWAYS_SHOWN = ("arms", "policy", "rewards", "exploration", "seed")


def to_line(arguments: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Return a bandit in one line: its main arguments, those that are not the default, and its counts."""
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
    head = ", ".join(
        f"{name} {escape(str(arguments[name]))}" for name in ("policy", "rewards", "exploration")
    )
    parts = [f"<strong>Bandit</strong> ({head})<br>{_describe_counts(counts)}"]
    arms = [(str(arm), f"{count:,}") for arm, count in reward_counts.items()]
    parts.append(_table(("arm", "rewards learned"), arms))
    if schema is not None:
        features = [(name, describe(feature)) for name, feature in schema.features.items()]
        parts.append(_table(("feature", "description"), features))
        parts.append(f"{schema.width} slots, {schema.free} free")
    return f"<div>{''.join(parts)}</div>"


def _describe_counts(counts: Mapping[str, int]) -> str:
    total = counts["decisions"]
    states = [
        f"{count:,} {name.replace('_', ' ')}"
        for name, count in counts.items()
        if count and name != "decisions"
    ]
    text = f"{total:,} decision" if total == 1 else f"{total:,} decisions"
    return f"{text}: {', '.join(states)}" if states else text


def _table(heads: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    shown = rows[:_MAX_ROWS]
    if len(rows) > _MAX_ROWS:
        shown.append(("…", f"and {len(rows) - _MAX_ROWS:,} more"))
    top = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{escape(text)}</td>'
