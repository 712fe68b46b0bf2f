"""Tables in plain HTML, for objects that notebooks display. All text is escaped."""

from collections.abc import Collection, Sequence
from html import escape
from typing import NamedTuple

_MAX_ROWS = 50
_BAR = 80
"""Width in pixels of the longest bar."""


class Bar(NamedTuple):
    """A cell with a number and a bar."""

    text: str
    share: float
    """Length of the bar, from −1 to 1; a negative one has another color."""


Cell = str | Bar


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], marked: Collection[int] = ()) -> str:
    """Return a table with at most 50 rows; a final row counts omitted rows.

    Parameters
    ----------
    heads
        The headings.
    rows
        The cells of each row.
    marked
        Numbers of the rows to print in bold.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> "<b>" in table(["arm"], [["<b>"]])
    False
    """
    shown = list(rows[:_MAX_ROWS])
    if len(rows) > _MAX_ROWS:
        shown.append(("…", f"and {len(rows) - _MAX_ROWS:,} more", *[""] * (len(heads) - 2)))
    top = "".join(f'<th style="text-align: left">{escape(head)}</th>' for head in heads)
    body = "".join(
        f"<tr>{''.join(_cell(cell, number in marked) for cell in row)}</tr>"
        for number, row in enumerate(shown)
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def view(title: str, *parts: str) -> str:
    """Return an HTML view: a title, which is escaped, and parts, which are HTML."""
    return f"<div><strong>{escape(title)}</strong>{''.join(parts)}</div>"


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(text)}</p>"


def _cell(cell: Cell, is_marked: bool) -> str:
    weight = "; font-weight: bold" if is_marked else ""
    if isinstance(cell, str):
        return f'<td style="text-align: left{weight}">{escape(cell)}</td>'
    width = round(min(abs(cell.share), 1.0) * _BAR)
    color = "#4c78a8" if cell.share >= 0 else "#e45756"
    bar = (
        f'<span style="display: inline-block; width: {width}px; height: 0.7em; margin-right: 0.5em; '
        f'background: {color}"></span>'
    )
    return f'<td style="text-align: left{weight}">{bar}{escape(cell.text)}</td>'
