"""The few statistics that every table uses."""

import math
from collections.abc import Sequence

import numpy as np


def mean_and_error(totals: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error; one number alone has no error to speak of (NaN).

    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    """
    error = float(np.std(totals, ddof=1) / math.sqrt(len(totals))) if len(totals) > 1 else math.nan
    return float(np.mean(totals)), error
