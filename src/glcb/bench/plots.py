"""The one place that touches matplotlib, an optional part."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from glcb._errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@contextmanager
def figure(path: Path, *, width: float, height: float, columns: int = 1) -> Iterator[tuple["Axes", ...]]:
    """Give axes to draw on, side by side, and save them to ``path`` at the end."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib: pip install 'glcb[report]'") from error

    # A figure without pyplot: no window system is asked for and no global state is left behind.
    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    axes = tuple(drawing.subplots(1, columns, squeeze=False)[0])
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.3)
    yield axes
    drawing.savefig(path, dpi=144)
