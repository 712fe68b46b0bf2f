"""Figures of the report, drawn as SVG: lines labeled at their ends, and horizontal bars. No legends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glcb._arrays import Float64
from glcb._document.document import Figure
from glcb.bench.curves import Curve
from glcb.bench.figures import vector
from glcb.bench.report import appearance
from glcb.bench.report.selection import SelectedPolicy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In points. The width is small enough that a phone does not have to shrink the letters. _LETTER and _LINE
# are the approximate width of a letter and height of a line of the labels.
_WIDTH, _MIN_HEIGHT = 285.0, 150.0
_LEFT, _BOTTOM, _TOP = 28.0, 28.0, 18.0
_LETTER, _LINE = 3.8, 9.0
_LEADER = 9.0
_MAX_LABEL = 32
_BAR_WIDTH, _BAR_HEIGHT, _BAR_BOTTOM, _VALUE_WIDTH = 250.0, 14.0, 18.0, 32.0

MAX_COLORED = 12
"""Largest number of policies that get a color each."""

ERRORS = 2
"""Bands and error bars show this many standard errors to either side of the mean."""


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
    labels = [bar.label[:_MAX_LABEL] for bar in bars]
    left = 6 + 4.4 * max(map(len, labels))
    height = _BAR_HEIGHT * len(bars)
    lowest = min(0.0, *(bar.mean - ERRORS * bar.error for bar in bars))

    def draw(axes: "Axes") -> None:
        positions = np.arange(len(bars))[::-1]
        for position, bar in zip(positions, bars, strict=True):
            # Policies with a dashed line may share a color with another policy; their bars are lighter.
            alpha = 1.0 if bar.stroke.dashes == "-" else 0.6
            axes.barh(position, bar.mean, height=0.66, color=bar.stroke.color, alpha=alpha)
            low, high = bar.mean - ERRORS * bar.error, bar.mean + ERRORS * bar.error
            if bar.error:
                axes.plot([low, high], [position, position], color="#010203", linewidth=1.1, clip_on=False)
            value = f"{bar.mean:.1f}".replace("-", "−")
            axes.text(max(high, 0) + 2, position, value, va="center", fontsize=8, clip_on=False)
        axes.set_yticks(positions, labels, fontsize=8)
        axes.set(xlim=(1.05 * lowest, 100), ylim=(-0.6, len(bars) - 0.4))
        axes.set_xticks([tick for tick in (-100, -50, 0, 25, 50, 75, 100) if tick >= 1.05 * lowest])
        axes.set_title(title, x=-left / (_BAR_WIDTH - left - _VALUE_WIDTH), loc="left", fontsize=9, pad=6)
        axes.tick_params(length=0)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.axvline(0, color="#010203", linewidth=0.6)

    margins = (left, _VALUE_WIDTH, _BAR_BOTTOM, _TOP)
    svg = vector(draw, name, width=_BAR_WIDTH, height=height + _BAR_BOTTOM + _TOP, margins=margins)
    return Figure(name, title, svg)


def draw_lines(
    name: str, title: str, lines: Sequence[Line], *, steps: float, logarithmic: bool = False
) -> Figure:
    """Return a figure of ``lines`` over 0 to ``steps``."""
    labels = [line.label[:_MAX_LABEL] for line in lines]
    right = _LEADER + 4 + _LETTER * max(map(len, labels))
    width, height = _WIDTH - _LEFT - right, max(_MIN_HEIGHT, _LINE * len(lines))

    def draw(axes: "Axes") -> None:
        for line in lines:
            _draw_line(axes, line)
        axes.set(xlabel="step", xlim=(0, steps))
        axes.set_title(title, x=-_LEFT / width, loc="left", fontsize=8, pad=8)
        axes.tick_params(length=2)
        axes.locator_params(axis="x", nbins=5)
        if logarithmic:
            _set_logarithmic(axes)
        _label_ends(axes, lines, labels, leader=_LEADER / width, gap=_LINE / height)

    margins = (_LEFT, right, _BOTTOM, _TOP)
    svg = vector(draw, name, width=_WIDTH, height=height + _BOTTOM + _TOP, margins=margins)
    return Figure(name, title, svg)


def _draw_line(axes: "Axes", line: Line) -> None:
    curve, stroke = line.curve, line.stroke
    axes.plot(curve.steps, curve.mean, color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width)
    if curve.error.any():
        low, high = curve.mean - ERRORS * curve.error, curve.mean + ERRORS * curve.error
        axes.fill_between(curve.steps, low, high, color=stroke.color, alpha=0.15, linewidth=0)


def _set_logarithmic(axes: "Axes") -> None:
    """Make the y-axis logarithmic, with plain tick labels at 1, 2, 5, 10, …."""
    low, high = axes.dataLim.intervaly
    axes.set_yscale("log")
    axes.set_ylim(low / 1.3, high * 1.3)
    ticks = [m * 10.0**e for e in range(-1, 10) for m in (1, 2, 5) if low / 1.3 <= m * 10.0**e <= high * 1.3]
    axes.set_yticks(ticks, [f"{tick:g}" if tick < 1e4 else f"{tick / 1000:g}k" for tick in ticks])
    axes.minorticks_off()


def _label_ends(
    axes: "Axes", lines: Sequence[Line], labels: Sequence[str], *, leader: float, gap: float
) -> None:
    """Write each label next to the end of its line, as close as the other labels allow."""
    to_fraction = axes.transScale + axes.transLimits
    ends = np.array(
        [to_fraction.transform((line.curve.steps[-1], line.curve.mean[-1])) for line in lines], np.float64
    )
    positions = spread_labels(ends[:, 1], gap)
    for end, position, line, label in zip(ends, positions, lines, labels, strict=True):
        color, width = line.stroke.color, line.stroke.width / 2
        (connector,) = axes.plot([end[0], 1 + leader], [end[1], position], color=color, linewidth=width)
        connector.set(transform=axes.transAxes, clip_on=False)
        axes.text(1 + 1.2 * leader, position, label, va="center", fontsize=7, transform=axes.transAxes)


def spread_labels(desired: Float64, gap: float) -> Float64:
    """Return positions within [0, 1] that are at least ``gap`` apart, near the desired ones, in their order.

    Neighbors that are too close are merged into a cluster around their common center, until none are.

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
