"""What the speed of GLCB is held to, and whether a run kept it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.table import Table

from benchmarks.rivals import NumpyLinUCB, VowpalWabbit
from benchmarks.table import BANDITS, Row, both_us

_MOST_FLOORS = {("binary", 94, 14): 1.8, ("binary", 389, 9): 1.6, ("tree", 32, 8): 2.0}
"""How many times the floor a decision of glcb-paper may take."""
_MAIN = ("binary", 94, 14)
"""The shape on which rivals are compared."""
_MOST_RIVALS = {
    ("glcb-paper", NumpyLinUCB.name): 1.5,
    ("glcb", NumpyLinUCB.name): 1.2,
    ("glcb-paper", VowpalWabbit.name): 1 / 3,
    ("glcb", VowpalWabbit.name): 1 / 3,
}
"""How many times as long as a rival's a decision and its update may take together."""


class Promise(NamedTuple):
    """A measured number and the most that it may be."""

    what: str
    measured: float
    limit: float

    @property
    def kept(self) -> bool:
        """Whether this run kept it."""
        return self.measured <= self.limit


def of_table(rows: Iterable[Row]) -> Iterator[Promise]:
    """Return the promises about rows that are there."""
    shapes: dict[tuple[str, int, int], dict[str, Row]] = {}
    for row in rows:
        shapes.setdefault((row["kind"], row["features"], row["arms"]), {})[row["policy"]] = row
    for shape, by_policy in shapes.items():
        kind, features, arms = shape
        where = f"({features}, {arms})" + (" tree" if kind == "tree" else "")
        ours, paper = (by_policy[name] for name in BANDITS)
        if shape in _MOST_FLOORS and paper["ratio"] is not None:
            yield Promise(f"{where}: decide of glcb-paper ÷ floor", paper["ratio"], _MOST_FLOORS[shape])
        yield Promise(f"{where}: decide of glcb ÷ glcb-paper's", ours["decide_us"] / paper["decide_us"], 1.0)
        for (bandit, rival), limit in _MOST_RIVALS.items():
            if shape == _MAIN and rival in by_policy:
                multiple = both_us(by_policy[bandit]) / both_us(by_policy[rival])
                yield Promise(f"{where}: decide + learn of {bandit} ÷ {rival}'s", multiple, limit)


def shown(promises: Sequence[Promise]) -> Table:
    """Return the promises for the screen."""
    table = Table(title="What was promised", title_justify="left")
    table.add_column("what")
    for heading in ("measured", "at most", ""):
        table.add_column(heading, justify="right")
    for promise in promises:
        table.add_row(
            promise.what,
            f"{promise.measured:.2f}",
            f"{promise.limit:.2f}",
            "kept" if promise.kept else "[bold]missed[/bold]",
        )
    return table
