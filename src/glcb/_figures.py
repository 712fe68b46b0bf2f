"""Figures as files and as SVG elements. Matplotlib is optional and is imported for the first figure."""

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glcb._errors import INSTALL_REPORT, InvalidSettings, MissingExtra
from glcb._files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SUFFIXES = (".png", ".svg", ".pdf")

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


@contextmanager
def figure(
    path: Path, *, width: float, height: float, columns: int = 1, rows: int = 1
) -> Iterator[tuple["Axes", ...]]:
    """Yield axes, row by row, and save the figure to ``path`` on exit."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Without pyplot, no display is needed and no global state is left behind.
    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    axes = tuple(drawing.subplots(rows, columns, squeeze=False).ravel())
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.3)
    yield axes
    try:
        with atomic_write(path) as file:
            drawing.savefig(file, format=path.suffix.lower().removeprefix("."), dpi=144)
    except OSError as error:
        raise InvalidSettings(f"cannot save the figure {path}: {error.strerror or error}") from error


def require_matplotlib() -> None:
    """Raise MissingExtra if no figure can be drawn. Call this before long computations."""
    try:
        import matplotlib.figure  # noqa: F401 (whether it can be imported is the question)
    except ImportError as error:
        raise MissingExtra(f"figures need matplotlib: {INSTALL_REPORT}") from error


def check_figure_path(path: Path) -> None:
    """Raise InvalidSettings if no figure can be saved to ``path``. Call this before long computations."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidSettings(f"the name of a figure must end in {' or '.join(_SUFFIXES)}, got {path.name!r}")
    if not path.parent.is_dir():
        raise InvalidSettings(f"cannot save the figure {path}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        reason = "it is a folder" if path.is_dir() else f"the folder {path.parent} is not writable"
        raise InvalidSettings(f"cannot save the figure {path}: {reason}; choose another path")


def vector(draw: Callable[["Axes"], None], name: str, title: str = "", *, width: float, height: float) -> str:
    """Return the result of ``draw`` as an SVG element. Text takes its color and font from the page.

    Figures on one page need distinct names. Sizes are in points.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    text = io.StringIO()
    with rc_context({**_VECTOR_STYLE, "svg.hashsalt": name}):
        drawing = Figure(figsize=(width / 72, height / 72), layout="constrained")
        FigureCanvasSVG(drawing)
        if title:
            drawing.suptitle(title, x=0.01, ha="left", fontsize=9)
        axes = drawing.add_subplot()
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
