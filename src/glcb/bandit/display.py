"""How a bandit shows itself: in a line, and as a page for notebooks."""

from collections.abc import Mapping
from html import escape
from typing import Any

from glcb._types import Arm
from glcb.bandit.encoding.schema import Schema, described

_MOST_ARMS = 4
_MOST_ROWS = 50


def line(parameters: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Return the bandit in a line: how it was made, and how far it has come."""
    arms = parameters["arms"]
    shown = {**parameters, "arms": arms if len(arms) <= _MOST_ARMS else [*arms[: _MOST_ARMS - 1], "…"]}
    made = ", ".join(f"{name}={value!r}" for name, value in shown.items() if value is not None)
    return f"Bandit({made}; {', '.join(f'{count:,} {name}' for name, count in counts.items())})"


def page(
    parameters: Mapping[str, Any], counts: Mapping[str, int], plays: Mapping[Arm, int], schema: Schema | None
) -> str:
    """Return the bandit in HTML: its counts, its arms and its features."""
    head = ", ".join(
        f"{name} {escape(str(value))}" for name, value in parameters.items() if name in ("policy", "rewards")
    )
    state = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    parts = [f"<strong>Bandit</strong> ({head}, exploration {parameters['exploration']:g})<br>{state}"]
    parts.append(
        _table(("arm", "rewards learned"), [(str(arm), f"{count:,}") for arm, count in plays.items()])
    )
    if schema is not None:
        features = [(name, described(feature)) for name, feature in schema.features.items()]
        parts.append(_table(("feature", "what is known of it"), features))
        parts.append(f"{schema.width} slots, {schema.free} of them free")
    return f"<div>{''.join(parts)}</div>"


def _table(heads: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    shown = rows[:_MOST_ROWS]
    if len(rows) > _MOST_ROWS:
        shown.append(("…", f"and {len(rows) - _MOST_ROWS:,} more"))
    top = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{escape(text)}</td>'
