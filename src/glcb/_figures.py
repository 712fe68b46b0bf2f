"""Pictures as files. Matplotlib is an optional part: it is loaded when the first one is drawn."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from glcb._errors import INSTALL_REPORT, InvalidSettings, MissingExtra
from glcb._files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ENDINGS = (".png", ".svg", ".pdf")


@contextmanager
def figure(
    path: Path, *, width: float, height: float, columns: int = 1, rows: int = 1
) -> Iterator[tuple["Axes", ...]]:
    """Give axes to draw on, row by row, and save them to ``path`` at the end."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra(f"pictures need matplotlib: {INSTALL_REPORT}") from error

    # A figure without pyplot: no window system is asked for and no global state is left behind.
    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    axes = tuple(drawing.subplots(rows, columns, squeeze=False).ravel())
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.3)
    yield axes
    try:
        with replacing(path) as file:
            drawing.savefig(file, format=path.suffix.lower().removeprefix("."), dpi=144)
    except OSError as error:
        raise InvalidSettings(f"cannot save the picture {path}: {error.strerror or error}") from error


def check_picture(path: Path) -> None:
    """Raise an error if a picture could not be saved to ``path``; better before long work than after."""
    if path.suffix.lower() not in _ENDINGS:
        raise InvalidSettings(f"a picture's name must end in {' or '.join(_ENDINGS)}, got {path.name!r}")
    if not path.parent.is_dir():
        raise InvalidSettings(f"there is no folder {path.parent} to save {path.name} in")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        reason = "it is a folder" if path.is_dir() else f"its folder {path.parent} cannot be written to"
        raise InvalidSettings(f"cannot save the picture {path}: {reason}; choose another name")
