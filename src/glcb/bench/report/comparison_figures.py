"""Figures that compare policies over many tasks: shares, leads, mean ranks, and reward against time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glcb._document.document import Figure
from glcb.bench.comparison import ERRORS, Outcome
from glcb.bench.figures import vector
from glcb.bench.report import appearance
from glcb.bench.report.figures import spread_labels
from glcb.bench.report.formatting import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In points, as in the other figures of the report. _LETTER is the approximate width of a letter.
_WIDTH = 285.0
_LETTER, _CAPITAL, _SMALL = 3.8, 4.9, 7.0
_WIDE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZmw%+−")
_ROW, _LINE, _LEGEND_ROW, _TITLE, _BOTTOM = 13.0, 10.5, 11.0, 18.0, 22.0
_MAX_LABEL = 22
_INK, _GRAY, _PALE = "#010203", appearance.MUTED.color, "#b8bec4"
_OUTCOMES = {
    Outcome.WIN: ("o", "#0ca678", "#0ca678"),
    Outcome.TIE: ("o", "none", _GRAY),
    Outcome.LOSS: ("D", "#e03131", "#e03131"),
    Outcome.UNDECIDED: ("x", _GRAY, _GRAY),
}
"""Marker, face color and edge color."""

Item = tuple[str, str, str, str]
"""One item of a legend: label, marker, face color and edge color."""


@dataclass(frozen=True)
class Series:
    """One policy in a figure of dots; only leading policies are colored and named."""

    label: str
    color: str
    leading: bool


@dataclass(frozen=True)
class Dots:
    """One task in a figure of dots: a value per series, or None."""

    label: str
    values: tuple[float | None, ...]


def draw_dots(name: str, title: str, series: Sequence[Series], rows: Sequence[Dots]) -> Figure:
    """Return a figure with one row per task and one dot per policy, in percent.

    Values below 0 are drawn as a triangle at the left edge.
    """
    labels = [_short(row.label) for row in rows]
    leading = [own for own in series if own.leading]
    left = _label_width(labels)
    top = legend_height(len(leading))
    height = top + _ROW * len(rows) + _BOTTOM
    lowest = min(value for row in rows for value in row.values if value is not None)
    low = max(0.0, 10.0 * np.floor(min(lowest, 90.0) / 10))

    def draw(axes: "Axes") -> None:
        positions = np.arange(len(rows))[::-1]
        for index, own in reversed(list(enumerate(series))):
            marker = appearance.MARKERS[leading.index(own)] if own.leading else "o"
            for position, row in zip(positions, rows, strict=True):
                value = row.values[index]
                if value is not None:
                    _dot(axes, max(value, low), position, marker if value >= low else "<", own)
        items = [
            (own.label, marker, own.color, own.color)
            for own, marker in zip(leading, appearance.MARKERS, strict=False)
        ]
        if len(series) > len(leading):
            items.append(("other policies", "o", _PALE, _PALE))
        _legend(axes, items, height=height)
        _rows(axes, positions, labels, title, left=left, right=8, top=top)
        axes.set(xlim=(low - 1, 101))

    svg = vector(draw, name, width=_WIDTH, height=height, margins=(left, 8, _BOTTOM, top))
    return Figure(name, title, svg)


def _dot(axes: "Axes", x: float, y: float, marker: str, own: Series) -> None:
    size, alpha, layer = (5.0, 1.0, 3) if own.leading else (3.2, 0.55, 2)
    axes.plot(
        [x], [y], marker, color=own.color, markersize=size, alpha=alpha, zorder=layer, mew=0, clip_on=False
    )


def _legend(axes: "Axes", items: Sequence[Item], *, height: float, columns: int = 2) -> None:
    """Explain the markers above the rows."""
    to_page = axes.get_figure(root=True).transFigure  # type: ignore[union-attr]
    for index, (label, marker, face, edge) in enumerate(items):
        x = (8 + _WIDTH / columns * (index % columns)) / _WIDTH
        y = 1 - (_TITLE + 5 + _LEGEND_ROW * (index // columns)) / height
        style = {"markersize": 4.6, "mfc": face, "mec": edge, "transform": to_page, "clip_on": False}
        axes.plot([x], [y], marker, **style)  # type: ignore[arg-type]
        axes.text(x + 8 / _WIDTH, y, _short(label, 28), va="center", fontsize=7.5, transform=to_page)


def _rows(
    axes: "Axes",
    positions: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]],
    labels: Sequence[str],
    title: str,
    *,
    left: float,
    right: float,
    top: float,
) -> None:
    """Label the rows and set the title at the upper left corner of the figure."""
    width = _WIDTH - left - right
    axes.set_yticks(positions, labels, fontsize=_SMALL)
    axes.set(ylim=(-0.6, len(labels) - 0.4))
    axes.set_title(title, x=-left / width, loc="left", fontsize=9, pad=top - _TITLE + 6)
    axes.tick_params(length=0, labelsize=_SMALL)
    axes.spines["left"].set_visible(False)


@dataclass(frozen=True)
class LeadRow:
    """The difference of the reference from the best other policy on one task, in percent."""

    label: str
    other: str
    mean: float
    error: float | None
    outcome: Outcome


def draw_leads(name: str, title: str, rows: Sequence[LeadRow], *, top: float) -> Figure:
    """Return a figure with one difference per task, its error bar, its value and the other policy.

    Differences far beyond the others are drawn as a triangle at the edge.
    """
    labels = [_short(row.label) for row in rows]
    values = [f"{number(row.mean, 1, sign=True)}%" for row in rows]
    others = [_short(row.other) for row in rows]
    left, column = _label_width(labels), _label_width(values)
    right = column + 5 + _label_width(others)
    low, high = _limits(rows)
    height = top + _ROW * len(rows) + _BOTTOM

    def draw(axes: "Axes") -> None:
        positions = np.arange(len(rows))[::-1]
        scale = 1 / (_WIDTH - left - right)
        axes.axvline(0, color=_INK, linewidth=0.8)
        for position, row, value, other in zip(positions, rows, values, others, strict=True):
            marker, face, edge = _OUTCOMES[row.outcome]
            reach = ERRORS * (row.error or 0.0)
            bar = np.clip([row.mean - reach, row.mean + reach], low, high)
            axes.plot(bar, [position, position], color=edge, linewidth=1.1, solid_capstyle="butt")
            shape = ">" if row.mean > high else "<" if row.mean < low else marker
            shown = float(np.clip(row.mean, low, high))
            style = {"markersize": 4.6, "mfc": face, "mec": edge, "mew": 1.0, "clip_on": False}
            axes.plot([shown], [position], shape, **style)  # type: ignore[arg-type]
            place = axes.get_yaxis_transform()
            axes.text(
                1 + column * scale, position, value, ha="right", va="center", fontsize=_SMALL, transform=place
            )
            axes.text(
                1 + (column + 5) * scale, position, other, va="center", fontsize=_SMALL, transform=place
            )
        shapes = {row.outcome for row in rows}
        items = [(own.value, *shape) for own, shape in _OUTCOMES.items() if own in shapes]
        _legend(axes, items, height=height, columns=4)
        _rows(axes, positions, labels, title, left=left, right=right, top=top)
        margin = 0.06 * (high - low)
        axes.set(xlim=(low - margin, high + margin))
        axes.locator_params(axis="x", nbins=6)

    svg = vector(draw, name, width=_WIDTH, height=height, margins=(left, right, _BOTTOM, top))
    return Figure(name, title, svg)


def _limits(rows: Sequence[LeadRow]) -> tuple[float, float]:
    """Return the range of the axis: all error bars, unless a few are far beyond the others."""
    ends = [row.mean + sign * ERRORS * (row.error or 0.0) for row in rows for sign in (-1, 1)]
    far = max(2.0, 5 * float(np.median([abs(row.mean) for row in rows])))
    return max(min(*ends, -0.5), -far), min(max(*ends, 0.5), far)


@dataclass(frozen=True)
class RankMark:
    """Mean rank of one policy."""

    label: str
    color: str
    rank: float


def draw_ranks(
    name: str, title: str, marks: Sequence[RankMark], groups: Sequence[tuple[float, float]], critical: float
) -> Figure:
    """Return the critical difference diagram: mean ranks on an axis, bars over groups that do not differ.

    ``marks`` are ordered by rank; a group is given by its best and its worst rank. The better half of the
    names stands left of their lines, the other half right of them.
    """
    count, half = len(marks), (len(marks) + 1) // 2
    texts = [f"{_short(mark.label)} {mark.rank:.1f}" for mark in marks[:half]]
    texts += [f"{mark.rank:.1f} {_short(mark.label)}" for mark in marks[half:]]
    left, right = _rank_margins(marks, texts, half)
    point = (count - 1) / (_WIDTH - left - right)  # one point in units of the axis
    lines, bars = _place_bars(groups, 4 * point)
    rows = 8 + 4.5 * lines
    depth = rows + _LINE * half + 4

    def draw(axes: "Axes") -> None:
        axes.set(xlim=(1, count), ylim=(-depth, 0))
        axes.axis("off")
        axes.plot([1, count], [0, 0], color=_INK, linewidth=0.8, clip_on=False)
        for rank in range(1, count + 1, max(1, round(count / 10))):
            axes.plot([rank, rank], [0, 3], color=_INK, linewidth=0.8, clip_on=False)
            axes.text(rank, 4.5, str(rank), ha="center", fontsize=_SMALL)
        axes.plot([1, 1 + critical], [18, 18], "|-", color=_INK, linewidth=1.0, markersize=5, clip_on=False)
        axes.text(1, 23, f"critical difference {critical:.2f}", fontsize=_SMALL)
        for line, (low, high) in bars:
            level = -5 - 4.5 * line
            axes.plot(
                [low, high], [level, level], color=_INK, linewidth=2.2, solid_capstyle="round", zorder=3
            )
        for index, (mark, text) in enumerate(zip(marks, texts, strict=True)):
            outward, row = (-1, index) if index < half else (1, count - 1 - index)
            level, tip = -(rows + _LINE * row + 6), mark.rank + outward * 4 * point
            style = {"color": mark.color, "linewidth": 0.9, "clip_on": False}
            axes.plot([mark.rank, mark.rank, tip], [0, level, level], **style)  # type: ignore[arg-type]
            align = "right" if outward < 0 else "left"
            axes.text(tip + outward * 2 * point, level, text, ha=align, va="center", fontsize=_SMALL)
        axes.set_title(title, x=-left * point / (count - 1), loc="left", fontsize=9, pad=38)

    top = _TITLE + 38
    svg = vector(draw, name, width=_WIDTH, height=top + depth, margins=(left, right, 0, top))
    return Figure(name, title, svg)


def _rank_margins(marks: Sequence[RankMark], texts: Sequence[str], half: int) -> tuple[float, float]:
    """Return the smallest margins left and right of the axis that leave room for all names."""
    needed = [4 + _label_width([text]) for text in texts]
    left = right = 10.0
    for _ in range(20):  # wider margins shorten the axis, which moves the names outward
        unit = (_WIDTH - left - right) / (len(marks) - 1)
        outside = [
            width - unit * (mark.rank - 1 if index < half else len(marks) - mark.rank)
            for index, (mark, width) in enumerate(zip(marks, needed, strict=True))
        ]
        left, right = (max(10.0, *side) for side in (outside[:half], outside[half:]))
    return left, right


def _place_bars(
    groups: Sequence[tuple[float, float]], gap: float
) -> tuple[int, list[tuple[int, tuple[float, float]]]]:
    """Stack the bars of groups: each goes to the first line where it overlaps no other."""
    ends: list[float] = []
    placed = []
    for low, high in groups:
        line = next((index for index, end in enumerate(ends) if end + gap < low), len(ends))
        ends[line : line + 1] = [high]
        placed.append((line, (low, high)))
    return len(ends), placed


@dataclass(frozen=True)
class CostMark:
    """Time and reward of one policy."""

    label: str
    color: str
    microseconds: float
    share: float
    named: bool
    """Whether the label is shown."""
    front: bool
    """Whether no other policy has more reward in less time."""


def draw_costs(name: str, title: str, marks: Sequence[CostMark]) -> Figure:
    """Return a figure of the mean share of the best possible reward against µs per step."""
    named = [mark for mark in marks if mark.named]
    labels = [_short(mark.label) for mark in named]
    left, right, top, bottom = 28.0, 14 + _label_width(labels), 24.0, 30.0
    inner = max(150.0, 9.0 * len(named))
    width = _WIDTH - left - right

    def draw(axes: "Axes") -> None:
        axes.set_xscale("log")
        front = sorted((mark for mark in marks if mark.front), key=lambda mark: mark.microseconds)
        times, shares = [mark.microseconds for mark in front], [mark.share for mark in front]
        axes.step(times, shares, where="post", color=_INK, linewidth=0.9, alpha=0.6, zorder=1)
        for mark in marks:
            size, alpha = (5.5, 1.0) if mark.named else (4.0, 0.5)
            style = {"color": mark.color, "markersize": size, "alpha": alpha, "mew": 0, "zorder": 3}
            axes.plot([mark.microseconds], [mark.share], "o", **style)  # type: ignore[arg-type]
        low, high = (getter([mark.microseconds for mark in marks]) for getter in (min, max))
        axes.set_xlim(low / 1.5, high * 1.5)
        steps = (1, 2, 5) if high / low < 50 else (1,)
        ticks = [step * 10.0**power for power in range(-2, 9) for step in steps]
        ticks = [tick for tick in ticks if low / 1.5 <= tick <= high * 1.5]
        axes.set_xticks(ticks, [f"{tick:g}" if tick < 1e4 else f"{tick / 1000:g}k" for tick in ticks])
        axes.minorticks_off()
        axes.margins(y=0.08)
        axes.set_xlabel("µs per step, logarithmic")
        axes.set_title(title, x=-left / width, loc="left", fontsize=9, pad=8)
        axes.tick_params(length=2)
        to_axes = axes.transData + axes.transAxes.inverted()
        ends = [to_axes.transform((mark.microseconds, mark.share)) for mark in named]
        places = spread_labels(np.array([end[1] for end in ends]), 9.0 / inner)
        for end, place, mark, label in zip(ends, places, named, labels, strict=True):
            line = {"color": mark.color, "linewidth": 0.5, "alpha": 0.7, "transform": axes.transAxes}
            axes.plot([end[0], 1 + 8 / width], [end[1], place], clip_on=False, **line)  # type: ignore[arg-type]
            axes.text(1 + 10 / width, place, label, va="center", fontsize=_SMALL, transform=axes.transAxes)

    margins = (left, right, bottom, top)
    svg = vector(draw, name, width=_WIDTH, height=inner + bottom + top, margins=margins)
    return Figure(name, title, svg)


def legend_height(leading: int) -> float:
    """Return the space above the rows of ``draw_dots`` with this many leading policies."""
    return _TITLE + _LEGEND_ROW * ((leading + 2) // 2) + 4


def _label_width(labels: Sequence[str]) -> float:
    """Return the approximate width of the longest label, with a margin."""
    return 6 + max(sum(_CAPITAL if letter in _WIDE else _LETTER for letter in label) for label in labels)


def _short(label: str, most: int = _MAX_LABEL) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
