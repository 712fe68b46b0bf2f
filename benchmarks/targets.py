"""Performance targets and whether a run met them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.table import Table

from benchmarks.peers import NumpyLinUCB, VowpalWabbit
from benchmarks.table import BANDITS, Row, both_us

_FLOOR_LIMITS = {("binary", 94, 14): 1.8, ("binary", 389, 9): 1.6, ("tree", 32, 8): 2.0}
"""Limit of a glcb-paper decision, as a multiple of the memory floor, by shape."""
_MAIN = ("binary", 94, 14)
"""The shape on which GLCB is compared with peers."""
_PEER_LIMITS = {
    ("glcb-paper", NumpyLinUCB.name): 1.5,
    ("glcb", NumpyLinUCB.name): 1.2,
    ("glcb-paper", VowpalWabbit.name): 1 / 3,
    ("glcb", VowpalWabbit.name): 1 / 2,
}
"""Limit of a decision plus its update, as a multiple of the peer's time."""


class Target(NamedTuple):
    """A measured number and its upper limit."""

    name: str
    measured: float
    limit: float

    @property
    def met(self) -> bool:
        """Whether the measurement is within the limit."""
        return self.measured <= self.limit


def table_targets(rows: Iterable[Row]) -> Iterator[Target]:
    """Yield the targets that apply to these rows of the speed table."""
    shapes: dict[tuple[str, int, int], dict[str, Row]] = {}
    for row in rows:
        shapes.setdefault((row["kind"], row["features"], row["arms"]), {})[row["policy"]] = row
    for shape, by_policy in shapes.items():
        kind, features, arms = shape
        where = f"({features}, {arms})" + (" tree" if kind == "tree" else "")
        ours, paper = (by_policy[name] for name in BANDITS)
        if shape in _FLOOR_LIMITS and paper["ratio"] is not None:
            yield Target(f"{where}: glcb-paper decide ÷ floor", paper["ratio"], _FLOOR_LIMITS[shape])
        yield Target(f"{where}: glcb decide ÷ glcb-paper decide", ours["decide_us"] / paper["decide_us"], 1.0)
        for (bandit, peer), limit in _PEER_LIMITS.items():
            if shape == _MAIN and peer in by_policy:
                multiple = both_us(by_policy[bandit]) / both_us(by_policy[peer])
                yield Target(f"{where}: {bandit} decide + learn ÷ {peer} decide + learn", multiple, limit)


def targets_table(targets: Sequence[Target]) -> Table:
    """Return a table of the targets for the terminal."""
    table = Table(title="Targets", title_justify="left")
    table.add_column("target")
    for heading in ("measured", "limit", ""):
        table.add_column(heading, justify="right")
    for target in targets:
        table.add_row(
            target.name,
            f"{target.measured:.2f}",
            f"{target.limit:.2f}",
            "met" if target.met else "[bold]missed[/bold]",
        )
    return table
