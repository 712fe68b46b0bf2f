"""Columns of data frames and arrays, whoever made them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glcb._errors import DataError
from glcb.tasks.data.readers import Column


def frame_columns(frame: Any) -> dict[str, Column]:
    """Return the columns of a data frame by their names, None where a value is missing."""
    if not hasattr(frame, "columns") or not hasattr(frame, "__getitem__"):
        raise DataError(f"a data frame has columns, got a {type(frame).__name__}: try from_arrays")
    names = list(frame.columns)
    if len(set(names)) != len(names):
        raise DataError(f"every column needs a name of its own, got {', '.join(map(str, names))}")
    return {str(name): _values(frame[name]) for name in names}


def frame_categories(frame: Any) -> list[str]:
    """Return the columns that a data frame calls categorical, even if their categories are numbers."""
    kinds = {str(name): str(frame[name].dtype).lower() for name in frame.columns}
    return [name for name, kind in kinds.items() if kind.startswith(("category", "categorical", "enum"))]


def array_columns(contexts: ArrayLike, **others: ArrayLike) -> dict[str, Column]:
    """Return the columns of ``contexts``, called "0", "1", …, and other columns of the same length."""
    table = np.asarray(contexts)
    if table.ndim != 2:
        raise DataError(f"contexts must be a table, one row per context, got the shape {table.shape}")
    columns: dict[str, Column] = {str(at): table[:, at] for at in range(table.shape[1])}
    for name, values in others.items():
        column = np.asarray(values)
        if column.shape != (len(table),):
            raise DataError(f"there must be one {name} for each of {len(table):,} rows, got {column.shape}")
        columns[name] = column
    return columns


def _values(series: Any) -> np.ndarray:
    missing = np.asarray(series.isna() if hasattr(series, "isna") else series.is_null(), np.bool_)
    values = np.asarray(series)
    if missing.any() and values.dtype.kind != "f":
        values = values.astype(object)
        values[missing] = None
    return values
