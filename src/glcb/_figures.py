"""Figures as files. Matplotlib is optional and is imported when the first figure is drawn."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from glcb._errors import INSTALL_REPORT, InvalidSettings, MissingExtra
from glcb._files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SUFFIXES = (".png", ".svg", ".pdf")


@contextmanager
def figure(
    path: Path, *, width: float, height: float, columns: int = 1, rows: int = 1
) -> Iterator[tuple["Axes", ...]]:
    """Yield axes, row by row, and save the figure to ``path`` on exit."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra(f"figures need matplotlib: {INSTALL_REPORT}") from error

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


def check_figure_path(path: Path) -> None:
    """Raise InvalidSettings if no figure can be saved to ``path``. Call this before long computations."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidSettings(f"the name of a figure must end in {' or '.join(_SUFFIXES)}, got {path.name!r}")
    if not path.parent.is_dir():
        raise InvalidSettings(f"cannot save the figure {path}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        reason = "it is a folder" if path.is_dir() else f"the folder {path.parent} is not writable"
        raise InvalidSettings(f"cannot save the figure {path}: {reason}; choose another path")
