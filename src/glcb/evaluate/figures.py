"""Figures of an evaluation: values over the log, the weights, and the arms of each policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from glcb._document.document import Figure
from glcb._figures import check_figure_path, figure, vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glcb.evaluate.result import Evaluation, PolicyResult

_COLORS = ("#868e96", "#e8590c", "#1c7ed6", "#0ca678", "#7950f2", "#d6336c", "#f08c00", "#15aabf")
_WIDTH, _HEIGHT = 340.0, 190.0
_MAX_ARMS = 12
_MAX_NAME = 32


def color(position: int) -> str:
    """Return the color of a policy; the logging policy is gray."""
    return _COLORS[0] if not position else _COLORS[1 + (position - 1) % (len(_COLORS) - 1)]


def draw(result: "Evaluation", path: Path) -> None:
    """Draw the values over the log, with their confidence sequences, and the arms of each policy."""
    check_figure_path(path)
    with figure(path, width=10, height=4, columns=2) as (values, arms):
        draw_values(values, result.policies)
        values.legend(frameon=False, fontsize=8)
        draw_arms(arms, result.policies)


def draw_values(axes: "Axes", policies: Sequence["PolicyResult"]) -> None:
    """Draw the estimated value of each policy over the rows of the log."""
    for position, own in enumerate(policies):
        rows = [point.rows for point in own.curve]
        axes.plot(rows, [point.value for point in own.curve], color=color(position), label=own.name)
        lows, highs = [point.low for point in own.curve], [point.high for point in own.curve]
        axes.fill_between(rows, lows, highs, color=color(position), alpha=0.12, linewidth=0)
    last = [own.curve[-1] for own in policies if own.curve]
    if last:
        low, high = min(point.low for point in last), max(point.high for point in last)
        margin = 0.5 * (high - low) or 0.05
        axes.set_ylim(low - margin, high + margin)
    axes.set(xlabel="rows of the log", ylabel="value")


def draw_arms(axes: "Axes", policies: Sequence["PolicyResult"]) -> None:
    """Draw the share of each arm in the decisions of each policy; the most frequent arms only."""
    totals = {arm: sum(own.shares.get(arm, 0.0) for own in policies) for arm in policies[0].shares}
    shown = sorted(totals, key=lambda arm: -totals[arm])[:_MAX_ARMS]
    height = 0.8 / len(policies)
    for position, own in enumerate(policies):
        places = [index + position * height for index in range(len(shown))]
        axes.barh(places, [own.shares[arm] for arm in shown], height=height, color=color(position))
    axes.set_yticks(
        [index + 0.4 - height / 2 for index in range(len(shown))], [_short(str(arm)) for arm in shown]
    )
    axes.invert_yaxis()
    axes.set(xlabel="share of decisions", xlim=(0, 1))


def value_figure(result: "Evaluation") -> Figure:
    """Return the figure of values over the log."""

    def draw_named(axes: "Axes") -> None:
        draw_values(axes, result.policies)
        names = axes.get_legend_handles_labels()
        axes.get_figure(root=True).legend(*names, loc="outside lower left", frameon=False, fontsize=7)  # type: ignore[union-attr]

    svg = vector(draw_named, "values", width=_WIDTH, height=_HEIGHT + 11 * len(result.policies))
    return Figure("values", "Value of each policy over the log, with its confidence sequence", svg)


def arm_figure(result: "Evaluation") -> Figure:
    """Return the figure of the arms of each policy."""
    rows = min(len(result.arms), _MAX_ARMS)
    height = max(60.0, 9.0 * rows * len(result.policies) + 40)
    svg = vector(lambda axes: draw_arms(axes, result.policies), "arms", width=_WIDTH, height=height)
    return Figure("arms", "Share of each arm, by policy; the logging policy is gray", svg)


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"
