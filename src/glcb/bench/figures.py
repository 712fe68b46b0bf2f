"""Figures of benchmark results, as files and as SVG elements."""

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from glcb._arrays import Float64
from glcb._errors import INSTALL_REPORT, MissingExtra
from glcb._figures import check_figure_path, figure
from glcb.bench.statistics import mean_and_error_along

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["band", "check_figure_path", "figure", "vector"]

# Placeholder that is replaced by the text color of the page.
_INK = "#010203"

_VECTOR_STYLE: Any = {
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"), _INK
    ),
    "font.size": 8.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "text.parse_math": False,  # dollar signs in a name are literal
    "svg.fonttype": "none",  # text remains text: small, searchable, in the font of the page
}


def band(ax: "Axes", steps: ArrayLike, curves: Sequence[Float64] | Float64, **style: Any) -> None:
    """Draw the mean of ``curves`` as a line with this style, with a band of one standard error."""
    mean, error = mean_and_error_along(curves)
    (line,) = ax.plot(steps, mean, **style)
    ax.fill_between(steps, mean - error, mean + error, color=line.get_color(), alpha=0.2, linewidth=0)


def vector(
    draw: Callable[["Axes"], None],
    name: str,
    *,
    width: float,
    height: float,
    margins: tuple[float, float, float, float],
) -> str:
    """Return the result of ``draw`` as an SVG element. Text takes its color and font from the page.

    Figures on one page need distinct names. Sizes are in points; margins are left, right, bottom, top.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra(f"figures need matplotlib: {INSTALL_REPORT}") from error

    left, right, bottom, top = margins
    text = io.StringIO()
    with rc_context({**_VECTOR_STYLE, "svg.hashsalt": name}):
        drawing = Figure(figsize=(width / 72, height / 72))
        FigureCanvasSVG(drawing)
        box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
        axes = drawing.add_axes(box)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.15, linewidth=0.6)
        draw(axes)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        drawing.savefig(text, format="svg", transparent=True, metadata=nothing)
    return _embeddable(text.getvalue())


def _embeddable(svg: str) -> str:
    """Return the bare element, without fonts, which the page sets, and without ids that figures share."""
    element = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    element = re.sub(r"font-family: [^;\"]*;?", "", element)
    return re.sub(r' id="[^"]*_[0-9]+"', "", element)
