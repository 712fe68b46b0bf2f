"""Tables of the Open Bandit Dataset (Saito et al. 2021): one row per displayed item."""

import csv
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from glcb.bandit.logs.format import LogColumns
from glcb.bandit.logs.reader import open_log
from glcb.evaluate.formats import tables
from glcb.evaluate.rows import LogRow

_COLUMNS = LogColumns(arm="item_id", reward="click", propensity="propensity_score", ignore=("", "timestamp"))


def matches(names: Collection[str]) -> bool:
    """Return whether a table has the columns of the data set.

    >>> matches(["timestamp", "item_id", "position", "click", "propensity_score"]), matches(["arm", "reward"])
    (True, False)
    """
    return {"item_id", "position", "click", "propensity_score"} <= set(names)


def read(path: Path, columns: LogColumns, default_reward: float | None) -> Iterator[LogRow]:
    """Yield the decisions of a file. The position is a feature; index and time are not."""
    with open_log(path) as (file, _):
        names = next(csv.reader([file.readline().decode("utf-8-sig", "replace")]), [])
    not_features = [name for name in _COLUMNS.ignore if name in names]
    layout = replace(_COLUMNS, ignore=(*not_features, *columns.ignore))
    yield from tables.read_csv(path, layout, default_reward)
