"""Lines over steps, each with its name beside its end: no legend to look up, and readable when small."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glcb._types import Float64
from glcb.bench.curves import Curve
from glcb.bench.figures import vector
from glcb.bench.report import names
from glcb.bench.report.document import Picture
from glcb.bench.report.selection import Player, Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In points: small enough that a phone need not shrink the letters. A letter of the labels is about this
# wide, and a line of them this high.
_WIDTH, _LEAST_HEIGHT = 285.0, 150.0
_LEFT, _BOTTOM, _TOP = 28.0, 28.0, 18.0
_LETTER, _LINE = 3.8, 9.0
_LEADER = 9.0
_LONGEST_LABEL = 32

ERRORS = 2
"""Bands reach this many standard errors to either side of the mean."""


@dataclass(frozen=True, eq=False)
class Line:
    """What is drawn of one policy."""

    label: str
    stroke: names.Stroke
    curve: Curve


def strokes(selection: Selection) -> dict[Player, names.Stroke]:
    """Return how each policy is drawn, the same in all pictures of a report."""
    result, unlisted = {}, 0
    for player in selection.players:
        known = None if player.settings else names.stroke(player.policy)
        result[player] = known or names.other_stroke(unlisted)
        unlisted += known is None
    return result


def draw(name: str, title: str, lines: Sequence[Line], *, until: float, logarithmic: bool = False) -> Picture:
    """Return the picture of ``lines``; steps go from 0 ``until`` the end of the runs."""
    labels = [line.label[:_LONGEST_LABEL] for line in lines]
    right = _LEADER + 4 + _LETTER * max(map(len, labels))
    width, height = _WIDTH - _LEFT - right, max(_LEAST_HEIGHT, _LINE * len(lines))

    def on(axes: "Axes") -> None:
        for line in lines:
            _plot(axes, line)
        axes.set(xlabel="step", xlim=(0, until))
        axes.set_title(title, x=-_LEFT / width, loc="left", fontsize=8, pad=8)
        axes.tick_params(length=2)
        axes.locator_params(axis="x", nbins=5)
        if logarithmic:
            _plain_logarithmic(axes)
        _name_ends(axes, lines, labels, leader=_LEADER / width, gap=_LINE / height)

    margins = (_LEFT, right, _BOTTOM, _TOP)
    svg = vector(on, name, width=_WIDTH, height=height + _BOTTOM + _TOP, margins=margins)
    return Picture(name, title, svg)


def _plot(axes: "Axes", line: Line) -> None:
    curve, stroke = line.curve, line.stroke
    axes.plot(curve.steps, curve.mean, color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width)
    if curve.error.any():
        low, high = curve.mean - ERRORS * curve.error, curve.mean + ERRORS * curve.error
        axes.fill_between(curve.steps, low, high, color=stroke.color, alpha=0.15, linewidth=0)


def _plain_logarithmic(axes: "Axes") -> None:
    """Make the y-axis logarithmic, with ticks at 1, 2, 5, 10, … written as they are."""
    low, high = axes.dataLim.intervaly
    axes.set_yscale("log")
    axes.set_ylim(low / 1.3, high * 1.3)
    ticks = [m * 10.0**e for e in range(-1, 10) for m in (1, 2, 5) if low / 1.3 <= m * 10.0**e <= high * 1.3]
    axes.set_yticks(ticks, [f"{tick:g}" if tick < 1e4 else f"{tick / 1000:g}k" for tick in ticks])
    axes.minorticks_off()


def _name_ends(
    axes: "Axes", lines: Sequence[Line], labels: Sequence[str], *, leader: float, gap: float
) -> None:
    """Write each label beside the end of its line, as near as the other labels allow."""
    to_fraction = axes.transScale + axes.transLimits
    ends = np.array(
        [to_fraction.transform((line.curve.steps[-1], line.curve.mean[-1])) for line in lines], np.float64
    )
    for end, place, named, label in zip(ends, spread(ends[:, 1], gap), lines, labels, strict=True):
        color, width = named.stroke.color, named.stroke.width / 2
        (line,) = axes.plot([end[0], 1 + leader], [end[1], place], color=color, linewidth=width)
        line.set(transform=axes.transAxes, clip_on=False)
        axes.text(1 + 1.2 * leader, place, label, va="center", fontsize=7, transform=axes.transAxes)


def spread(wanted: Float64, gap: float) -> Float64:
    """Return places within [0, 1], at least ``gap`` apart, in the order of the wanted ones and near to them.

    Neighbours that are too close are merged into one cluster around their common middle, until none is.

    >>> spread(np.array([0.5, 0.5, 0.9]), 0.2).round(2).tolist()
    [0.4, 0.6, 0.9]
    """
    order = np.argsort(wanted, kind="stable")
    offsets = gap * np.arange(wanted.size)
    # With the gaps taken out, places need only not decrease: this is isotonic regression.
    clusters: list[list[float]] = []
    for value in wanted[order] - offsets:
        clusters.append([float(value)])
        while len(clusters) > 1 and np.mean(clusters[-2]) > np.mean(clusters[-1]):
            last = clusters.pop()
            clusters[-1].extend(last)
    places = np.concatenate([np.full(len(cluster), np.mean(cluster)) for cluster in clusters])
    result = np.empty_like(wanted)
    result[order] = np.clip(places, 0, max(0.0, 1 - offsets[-1])) + offsets
    return result
