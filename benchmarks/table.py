"""The speed table: decide and learn times of GLCB and its peers on every shape, with the memory floor."""

from collections.abc import Sequence
from functools import partial
from typing import TypedDict

import numpy as np
from rich.table import Table

from benchmarks import peers
from benchmarks.bandits import Kind, Shape, full_bandit, kernel_step, public_step
from benchmarks.floor import Footprint, floor_step, footprint
from benchmarks.timing import Effort, Step, Times, side_by_side
from glcb._arrays import Float64

SHAPES = (
    Shape("binary", 9, 7),
    Shape("binary", 54, 7),
    Shape("binary", 94, 14),
    Shape("binary", 389, 9),
    Shape("tree", 32, 8),
)
"""The shapes of statlog, covertype, adult, census and jester."""
BANDITS = ("glcb", "glcb-paper")


class Row(TypedDict):
    """One policy on one shape; times are medians in µs. Fields that do not apply are None."""

    kind: Kind
    features: int
    arms: int
    policy: str
    decide_us: float
    learn_us: float
    decide_p99_us: float
    learn_p99_us: float
    kernel_us: float | None
    floor_us: float | None
    ratio: float | None
    """``decide_us`` as a multiple of the floor."""
    weight_bytes: int | None
    hyperplane_bytes: int | None
    bank_bytes: int | None
    read_gb_per_s: float | None
    calls: int


def measure(shape: Shape, effort: Effort, seed: int = 0) -> list[Row]:
    """Return the rows of one shape, all measured side by side."""
    rng = np.random.default_rng(seed)
    steps: dict[tuple[str, str], Step] = {}
    needs: dict[str, Footprint] = {}
    for policy in BANDITS:
        bandit = full_bandit(policy, shape, rng)
        needs[policy] = footprint(bandit)
        steps[policy, "public"] = public_step(bandit, shape, rng)
        steps[policy, "kernel"] = kernel_step(bandit)
        steps[policy, "floor"] = floor_step(needs[policy], rng)
    others = peers.installed()
    for peer in others:
        steps[peer.name, "public"] = partial(_peer_step, peer(shape.arms, shape.features), shape, rng)
    times = side_by_side(steps, dict.fromkeys(steps, shape.features), effort, rng)
    rows = [
        _bandit_row(
            shape,
            policy,
            times[policy, "public"],
            times[policy, "kernel"]["kernel"].median,
            times[policy, "floor"]["floor"].median,
            needs[policy],
        )
        for policy in BANDITS
    ]
    return rows + [_row(shape, peer.name, times[peer.name, "public"]) for peer in others]


def _peer_step(peer: peers.Peer, shape: Shape, rng: np.random.Generator, x: Float64) -> dict[str, float]:
    return dict(peer.step(x, shape.reward(rng)))


def _row(shape: Shape, policy: str, public: dict[str, Times]) -> Row:
    decide, learn = public["decide"], public["learn"]
    return {
        "kind": shape.kind,
        "features": shape.features,
        "arms": shape.arms,
        "policy": policy,
        "decide_us": decide.median,
        "learn_us": learn.median,
        "decide_p99_us": decide.p99,
        "learn_p99_us": learn.p99,
        "kernel_us": None,
        "floor_us": None,
        "ratio": None,
        "weight_bytes": None,
        "hyperplane_bytes": None,
        "bank_bytes": None,
        "read_gb_per_s": None,
        "calls": decide.calls,
    }


def _bandit_row(
    shape: Shape, policy: str, public: dict[str, Times], kernel: float, floor: float, needed: Footprint
) -> Row:
    row = _row(shape, policy, public)
    return {
        **row,
        "kernel_us": kernel,
        "floor_us": floor,
        "ratio": row["decide_us"] / floor,
        "weight_bytes": needed.weights,
        "hyperplane_bytes": needed.hyperplanes,
        "bank_bytes": needed.bank,
        "read_gb_per_s": needed.total / floor / 1e3,
    }


def both_us(row: Row) -> float:
    """Return the time of a decision and its update."""
    return row["decide_us"] + row["learn_us"]


def speed_table(shape: Shape, rows: Sequence[Row]) -> Table:
    """Return a table of the rows of one shape for the terminal."""
    baseline = next(both_us(row) for row in rows if row["policy"] == peers.NumpyLinUCB.name)
    table = Table(title=f"{shape}: µs, median (p99)", title_justify="left")
    table.add_column("policy", no_wrap=True)
    for heading in ("decide", "learn", "both", "÷ NumPy", "kernel", "floor", "decide ÷ floor", "GB/s"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row["policy"],
            f"{row['decide_us']:,.1f} ({row['decide_p99_us']:,.0f})",
            f"{row['learn_us']:,.1f} ({row['learn_p99_us']:,.0f})",
            f"{both_us(row):,.1f}",
            f"{both_us(row) / baseline:.2f}",
            _or_dash(row["kernel_us"], "{:,.1f}"),
            _or_dash(row["floor_us"], "{:,.1f}"),
            _or_dash(row["ratio"], "{:.2f}"),
            _or_dash(row["read_gb_per_s"], "{:.1f}"),
        )
    return table


def _or_dash(value: float | None, template: str) -> str:
    return "–" if value is None else template.format(value)
