"""Figures of the report, drawn as SVG: lines, bars, dots, leads, mean ranks, and reward against time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glcb._arrays import Float64
from glcb._document.document import Figure
from glcb.bench.comparison import ERRORS, Outcome
from glcb.bench.curves import Curve
from glcb.bench.figures import vector
from glcb.bench.report import appearance
from glcb.bench.report.formatting import number
from glcb.bench.report.selection import SelectedPolicy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In points. The width is small enough that a phone does not have to shrink the letters.
_WIDTH, _BAR_WIDTH, _MIN_HEIGHT = 285.0, 250.0, 150.0
_ROW, _LINE, _EDGES = 13.0, 9.0, 50.0
"""Heights of a row, of a label beside others, and of the title and the axis."""
_SMALL = 7.0
_MAX_LABEL = 22
_INK, _GRAY, _PALE = "#010203", appearance.MUTED.color, "#b8bec4"
_OUTCOMES = {
    Outcome.WIN: ("o", "#0ca678", "#0ca678"),
    Outcome.TIE: ("o", "none", _GRAY),
    Outcome.LOSS: ("D", "#e03131", "#e03131"),
    Outcome.UNDECIDED: ("x", _GRAY, _GRAY),
}
"""Marker, face color and edge color."""

MAX_COLORED = 12
"""Largest number of policies that get a color each."""


@dataclass(frozen=True, eq=False)
class Line:
    """The curve of one policy."""

    label: str
    stroke: appearance.Stroke
    curve: Curve


@dataclass(frozen=True)
class PolicyBar:
    """The value of one policy and its standard error."""

    label: str
    stroke: appearance.Stroke
    mean: float
    error: float


def strokes(order: Sequence[SelectedPolicy]) -> dict[SelectedPolicy, appearance.Stroke]:
    """Return the line style of each entry, the same in all figures of a report.

    With more entries than colors, only the leading ones are colored.
    """
    if len(order) > MAX_COLORED:
        leading = dict(zip(order, appearance.LEADING, strict=False))
        return {entry: leading.get(entry, appearance.MUTED) for entry in order}
    styles, unlisted = {}, 0
    for entry in order:
        listed = None if entry.settings else appearance.stroke(entry.policy)
        styles[entry] = listed or appearance.other_stroke(unlisted)
        unlisted += listed is None
    return styles


def draw_bars(name: str, title: str, bars: Sequence[PolicyBar]) -> Figure:
    """Return a figure with one horizontal bar per policy, in percent, with error bars and values."""
    lowest = min(0.0, *(bar.mean - ERRORS * bar.error for bar in bars))

    def draw(axes: "Axes") -> None:
        _rows(axes, [bar.label for bar in bars])
        for position, bar in enumerate(bars):
            # Policies with a dashed line may share a color with another policy; their bars are lighter.
            alpha = 1.0 if bar.stroke.dashes == "-" else 0.6
            axes.barh(position, bar.mean, height=0.66, color=bar.stroke.color, alpha=alpha)
            reach = ERRORS * bar.error
            if reach:
                axes.plot([bar.mean - reach, bar.mean + reach], [position] * 2, color=_INK, linewidth=1.1)
            value = number(bar.mean, 1)
            axes.text(max(bar.mean + reach, 0) + 2, position, value, va="center", fontsize=8)
        axes.set(xlim=(1.05 * lowest, 115))
        axes.set_xticks([tick for tick in (-100, -50, 0, 25, 50, 75, 100) if tick >= 1.05 * lowest])
        axes.grid(visible=False, axis="y")
        axes.set_axisbelow(True)
        axes.axvline(0, color=_INK, linewidth=0.6)

    height = _ROW * len(bars) + _EDGES
    return Figure(name, title, vector(draw, name, title, width=_BAR_WIDTH, height=height))


def draw_lines(
    name: str, title: str, lines: Sequence[Line], *, steps: float, logarithmic: bool = False
) -> Figure:
    """Return a figure of ``lines`` over 0 to ``steps``, labeled at their ends."""
    height = max(_MIN_HEIGHT, _LINE * len(lines))

    def draw(axes: "Axes") -> None:
        for line in lines:
            curve, stroke = line.curve, line.stroke
            style = {"color": stroke.color, "linestyle": stroke.dashes, "linewidth": stroke.width}
            axes.plot(curve.steps, curve.mean, **style)  # type: ignore[arg-type]
            if curve.error.any():
                low, high = curve.mean - ERRORS * curve.error, curve.mean + ERRORS * curve.error
                axes.fill_between(curve.steps, low, high, color=stroke.color, alpha=0.15, linewidth=0)
        axes.set(xlabel="step", xlim=(0, steps))
        axes.tick_params(length=2)
        axes.locator_params(axis="x", nbins=5)
        if logarithmic:
            _set_logarithmic(axes, "y", *axes.dataLim.intervaly)
        ends = [(float(line.curve.steps[-1]), float(line.curve.mean[-1])) for line in lines]
        colors = [line.stroke.color for line in lines]
        _label_right(axes, ends, [line.label for line in lines], colors, _LINE / height)

    return Figure(name, title, vector(draw, name, title, width=_WIDTH, height=height + _EDGES))


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

    Values far below the others are drawn as a triangle at the left edge.
    """
    lowest = min(value for row in rows for value in row.values if value is not None)
    low = max(0.0, 10.0 * np.floor(min(lowest, 90.0) / 10))
    markers = iter(appearance.MARKERS)
    styles = [(next(markers), 5.0, 1.0, 3) if own.leading else ("o", 3.2, 0.55, 2) for own in series]

    def draw(axes: "Axes") -> None:
        _rows(axes, [row.label for row in rows])
        for index, own in reversed(list(enumerate(series))):
            marker, size, alpha, layer = styles[index]
            for position, row in enumerate(rows):
                value = row.values[index]
                if value is not None:
                    shape = marker if value >= low else "<"
                    style = {"color": own.color, "markersize": size, "alpha": alpha, "zorder": layer}
                    axes.plot([max(value, low)], [position], shape, mew=0, **style)  # type: ignore[arg-type]
        items = [
            (own.label, style[0], own.color, own.color)
            for own, style in zip(series, styles, strict=True)
            if own.leading
        ]
        _legend(axes, [*items, *[("other policies", "o", _PALE, _PALE)] * (len(items) < len(series))])
        axes.set(xlim=(low - 1, 101))

    height = _ROW * len(rows) + _EDGES + 30
    return Figure(name, title, vector(draw, name, title, width=_WIDTH, height=height))


@dataclass(frozen=True)
class LeadRow:
    """The difference of the reference from the best other policy on one task, in percent."""

    label: str
    other: str
    mean: float
    error: float | None
    outcome: Outcome


def draw_leads(name: str, title: str, rows: Sequence[LeadRow]) -> Figure:
    """Return a figure with one difference per task, its error bar, its value and the other policy.

    Differences far beyond the others are drawn as a triangle at the edge.
    """
    ends = [row.mean + sign * ERRORS * (row.error or 0.0) for row in rows for sign in (-1, 1)]
    far = max(2.0, 5 * float(np.median([abs(row.mean) for row in rows])))
    low, high = max(min(*ends, -0.5), -far), min(max(*ends, 0.5), far)

    def draw(axes: "Axes") -> None:
        _rows(axes, [row.label for row in rows])
        axes.axvline(0, color=_INK, linewidth=0.8)
        for position, row in enumerate(rows):
            marker, face, edge = _OUTCOMES[row.outcome]
            reach = ERRORS * (row.error or 0.0)
            bar = np.clip([row.mean - reach, row.mean + reach], low, high)
            axes.plot(bar, [position] * 2, color=edge, linewidth=1.1, solid_capstyle="butt")
            shape = ">" if row.mean > high else "<" if row.mean < low else marker
            style = {"markersize": 4.6, "mfc": face, "mec": edge, "mew": 1.0, "clip_on": False}
            axes.plot([float(np.clip(row.mean, low, high))], [position], shape, **style)  # type: ignore[arg-type]
        others = axes.secondary_yaxis("right")
        texts = [f"{number(row.mean, 1, sign=True)}%  {_short(row.other)}" for row in rows]
        others.set_yticks(range(len(rows)), texts, fontsize=_SMALL)
        others.tick_params(length=0)
        others.spines["right"].set_visible(False)
        shapes = {row.outcome for row in rows}
        _legend(axes, [(own.value, *shape) for own, shape in _OUTCOMES.items() if own in shapes])
        margin = 0.06 * (high - low)
        axes.set(xlim=(low - margin, high + margin))
        axes.locator_params(axis="x", nbins=6)

    height = _ROW * len(rows) + _EDGES + 30
    return Figure(name, title, vector(draw, name, title, width=_WIDTH, height=height))


@dataclass(frozen=True)
class RankMark:
    """Mean rank of one policy."""

    label: str
    color: str
    rank: float


def draw_ranks(
    name: str, title: str, marks: Sequence[RankMark], groups: Sequence[tuple[float, float]], critical: float
) -> Figure:
    """Return the critical difference diagram: mean ranks on an axis, bars over groups of equal policies.

    ``marks`` are ordered by rank; a group is given by its best and its worst rank. The better half of the
    names stands left of the axis, the other half right of it.
    """
    count, half = len(marks), (len(marks) + 1) // 2
    depth = 0.4 * len(groups) + half

    def draw(axes: "Axes") -> None:
        axes.axis("off")
        axes.set(xlim=(1, count), ylim=(-depth - 0.6, 2.6))
        line = {"color": _INK, "linewidth": 0.8, "clip_on": False}
        axes.plot([1, count], [0, 0], **line)  # type: ignore[arg-type]
        for rank in range(1, count + 1, max(1, round(count / 10))):
            axes.plot([rank, rank], [0, 0.3], **line)  # type: ignore[arg-type]
            axes.text(rank, 0.45, str(rank), ha="center", fontsize=_SMALL)
        axes.plot([1, 1 + critical], [1.7, 1.7], "|-", markersize=5, **line)  # type: ignore[arg-type]
        axes.text(1, 2.1, f"critical difference {critical:.2f}", fontsize=_SMALL)
        for row, (low, high) in enumerate(groups, 1):
            axes.plot([low, high], [-0.4 * row] * 2, color=_INK, linewidth=2.2, zorder=3)
        for index, mark in enumerate(marks):
            left = index < half
            level, edge = -0.4 * len(groups) - 1 - min(index, count - 1 - index), 1 if left else count
            style = {"color": mark.color, "linewidth": 0.9, "clip_on": False}
            axes.plot([mark.rank, mark.rank, edge], [0, level, level], **style)  # type: ignore[arg-type]
            parts = (_short(mark.label), f"{mark.rank:.1f}")
            text, align = " ".join(parts if left else parts[::-1]), "right" if left else "left"
            place = edge + (-0.02 if left else 0.02) * (count - 1)
            axes.text(place, level, text, ha=align, va="center", fontsize=_SMALL)

    height = 11 * (depth + 3.2) + 20
    return Figure(name, title, vector(draw, name, title, width=_WIDTH, height=height))


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
    height = max(_MIN_HEIGHT, _LINE * len(named))

    def draw(axes: "Axes") -> None:
        front = sorted((mark for mark in marks if mark.front), key=lambda mark: mark.microseconds)
        times, shares = [mark.microseconds for mark in front], [mark.share for mark in front]
        axes.step(times, shares, where="post", color=_INK, linewidth=0.9, alpha=0.6, zorder=1)
        for mark in marks:
            size, alpha = (5.5, 1.0) if mark.named else (4.0, 0.5)
            style = {"color": mark.color, "markersize": size, "alpha": alpha, "mew": 0, "zorder": 3}
            axes.plot([mark.microseconds], [mark.share], "o", **style)  # type: ignore[arg-type]
        low, high = (getter([mark.microseconds for mark in marks]) for getter in (min, max))
        _set_logarithmic(axes, "x", low, high)
        axes.margins(y=0.08)
        axes.set_xlabel("µs per step, logarithmic")
        axes.tick_params(length=2)
        points = [(mark.microseconds, mark.share) for mark in named]
        colors = [mark.color for mark in named]
        _label_right(axes, points, [mark.label for mark in named], colors, _LINE / height)

    return Figure(name, title, vector(draw, name, title, width=_WIDTH, height=height + _EDGES))


def _rows(axes: "Axes", labels: Sequence[str]) -> None:
    """Label one row per label, the first one at the top."""
    axes.set_yticks(range(len(labels)), [_short(label) for label in labels], fontsize=_SMALL)
    axes.set(ylim=(len(labels) - 0.4, -0.6))
    axes.tick_params(length=0, labelsize=_SMALL)
    axes.spines["left"].set_visible(False)


def _legend(axes: "Axes", items: Sequence[tuple[str, str, str, str]]) -> None:
    """Explain the markers above the rows: label, marker, face color and edge color of each."""
    handles = [
        axes.plot([], [], marker, markersize=4.6, mfc=face, mec=edge, label=_short(label, 28))[0]
        for label, marker, face, edge in items
    ]
    style: dict[str, Any] = {"frameon": False, "fontsize": 7.5, "handletextpad": 0.2, "ncols": 2}
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), **style)


def _set_logarithmic(axes: "Axes", name: str, low: float, high: float) -> None:
    """Make the axis ``"x"`` or ``"y"`` logarithmic, with plain labels; a short axis also at 2, 5, …."""
    low, high = low / 1.3, high * 1.3
    steps = (1, 2, 5) if high / low < 100 else (1,)
    ticks = [step * 10.0**power for power in range(-2, 10) for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    texts = [f"{tick:g}" if tick < 1e4 else f"{tick / 1000:g}k" for tick in ticks]
    getattr(axes, f"{name}axis").set_ticks(ticks, texts)
    axes.minorticks_off()


def _label_right(
    axes: "Axes",
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    colors: Sequence[str],
    gap: float,
) -> None:
    """Write the label of each point right of the axes, as close as the other labels allow."""
    to_fraction = axes.transScale + axes.transLimits
    heights = np.array([to_fraction.transform(point)[1] for point in points], np.float64)
    for point, place, label, color in zip(points, spread_labels(heights, gap), labels, colors, strict=True):
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.6, "relpos": (0, 0.5), "shrinkB": 0}
        axes.annotate(
            _short(label),
            point,
            (1.04, float(place)),
            textcoords="axes fraction",
            va="center",
            fontsize=_SMALL,
            annotation_clip=False,
            arrowprops=line,
        )


def spread_labels(desired: Float64, gap: float) -> Float64:
    """Return positions within [0, 1] that are at least ``gap`` apart, near the desired ones, in their order.

    Neighbors that are too close are merged into a cluster around their common center, until none remain.

    >>> spread_labels(np.array([0.5, 0.5, 0.9]), 0.2).round(2).tolist()
    [0.4, 0.6, 0.9]
    """
    order = np.argsort(desired, kind="stable")
    offsets = gap * np.arange(desired.size)
    # Without the gaps, positions only have to be non-decreasing: this is isotonic regression.
    clusters: list[list[float]] = []
    for value in desired[order] - offsets:
        clusters.append([float(value)])
        while len(clusters) > 1 and np.mean(clusters[-2]) > np.mean(clusters[-1]):
            last = clusters.pop()
            clusters[-1].extend(last)
    centers = np.concatenate([np.full(len(cluster), np.mean(cluster)) for cluster in clusters])
    result = np.empty_like(desired)
    result[order] = np.clip(centers, 0, max(0.0, 1 - offsets[-1])) + offsets
    return result


def _short(label: str, most: int = _MAX_LABEL) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
