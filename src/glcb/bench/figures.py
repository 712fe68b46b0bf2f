"""Figures of benchmark results."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from glcb._arrays import Float64
from glcb._figures import check_figure_path, figure, vector
from glcb.bench.statistics import mean_and_error_along

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["band", "check_figure_path", "figure", "vector"]


def band(ax: "Axes", steps: ArrayLike, curves: Sequence[Float64] | Float64, **style: Any) -> None:
    """Draw the mean of ``curves`` as a line with this style, with a band of one standard error."""
    mean, error = mean_and_error_along(curves)
    (line,) = ax.plot(steps, mean, **style)
    ax.fill_between(steps, mean - error, mean + error, color=line.get_color(), alpha=0.2, linewidth=0)
