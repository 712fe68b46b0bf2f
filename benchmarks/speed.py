"""Everything about speed in one run: ``make speed``, on an otherwise idle machine.

Prints tables and leaves the numbers in benchmarks/out. Parts can be named to run only those, as in
``python -m benchmarks.speed table``.
"""

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numba
import numpy as np
from rich.console import Console

from benchmarks import fresh, growth, laws, picture, promises, rivals, table
from benchmarks.bandits import Shape
from benchmarks.clock import Effort
from benchmarks.promises import Promise
from glcb import InvalidSettings


@dataclass(frozen=True)
class Plan:
    """What is measured, how long, and where the numbers go."""

    out: Path = Path(__file__).parent / "out"
    shapes: tuple[Shape, ...] = table.SHAPES
    table_effort: Effort = field(default_factory=Effort)
    ranges: growth.Range = field(default_factory=growth.Range)
    growth_effort: Effort = field(default_factory=lambda: Effort(rounds=20))
    memory_marks: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000)


def run_table(plan: Plan, console: Console) -> Iterator[Promise]:
    """Measure everyone on every shape."""
    rows: list[table.Row] = []
    for shape in plan.shapes:
        measured = table.measure(shape, plan.table_effort)
        console.print(table.shown(shape, measured))
        rows += measured
    if rivals.missing():
        console.print(f"Not installed and left out: {', '.join(rivals.missing())} (pip install '.[rivals]')")
    _write(plan.out / "speed.json", rows)
    yield from promises.of_table(rows)


def run_growth(plan: Plan, console: Console) -> Iterator[Promise]:
    """Measure all curves and draw them."""
    memory = {
        policy: fresh.growth_mb(policy, plan.ranges.main, plan.memory_marks)
        for policy in table.BANDITS
        if fresh.can_tell_memory()
    }
    points: list[growth.Point] = []
    for curve in growth.measure(plan.ranges, plan.growth_effort):
        console.print(f"measured against {curve[0]['axis']}")
        points += curve
    console.print(laws.shown(points))
    _write(plan.out / "growth.json", {"points": points, "memory": memory})
    picture.draw(plan.out / "growth.png", points, memory)
    yield from growth.promises(points)


def run_memory(plan: Plan, console: Console) -> Iterator[Promise]:
    """Measure what a fresh bandit and what 5000 steps of census make resident."""
    if not fresh.can_tell_memory():
        console.print("Memory is left out: only Linux tells how much of a process is resident.")
        return
    measured = {}
    for policy in table.BANDITS:
        stages, census = fresh.fresh_mb(policy), fresh.census_mb(policy)
        measured[policy] = {"fresh": stages, "census": census}
        console.print(
            f"Resident, {policy}: " + ", ".join(f"{name} {mb:.0f} MB" for name, mb in stages.items())
        )
        if census is None:
            console.print("Census is left out: its data is not here (glcb data list).")
        else:
            console.print(
                f"{census['mb']:.0f} MB after {census['steps']:,} steps of census, {census['cells']:,} cells"
            )
        yield from fresh.memory_promises(policy, stages)
    _write(plan.out / "memory.json", measured)


def run_start(plan: Plan, console: Console) -> Iterator[Promise]:
    """Measure how long the first decision takes."""
    seconds = fresh.start_seconds()
    for name, times in seconds.items():
        console.print(
            f"From import glcb, {name}: first decision after {times['first_decision']:.2f} s, "
            f"first update after {times['first_update']:.2f} s"
        )
    _write(plan.out / "start.json", seconds)
    yield from fresh.start_promises(seconds)


PARTS: dict[str, Callable[[Plan, Console], Iterator[Promise]]] = {
    "table": run_table,
    "growth": run_growth,
    "memory": run_memory,
    "start": run_start,
}


def run(names: Iterable[str], plan: Plan, console: Console) -> list[Promise]:
    """Run the parts named; return what was promised about them."""
    wanted = list(names) or list(PARTS)
    if unknown := set(wanted) - set(PARTS):
        raise InvalidSettings(
            f"no part is called {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}"
        )
    plan.out.mkdir(exist_ok=True)
    console.print(conditions())
    found = [promise for name in wanted for promise in PARTS[name](plan, console)]
    console.print(promises.shown(found))
    return found


def conditions() -> str:
    """Return what the times depend on."""
    load = os.getloadavg()[0]
    lines = [
        f"{_cpu()}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy {np.__version__}, "
        f"Numba {numba.__version__}; load {load:.1f}"
    ]
    if load > 0.5:
        lines.append("The machine is not idle: compare within this run, and do not quote its µs.")
    if os.environ.get("OMP_NUM_THREADS") != "1":
        lines.append("OMP_NUM_THREADS is not 1: NumPy may use more cores than glcb does.")
    return "\n".join(lines)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _write(path: Path, measured: object) -> None:
    path.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run the parts that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)} (default: all)")
    try:
        run(parser.parse_args().parts, Plan(), Console(width=130))
    except InvalidSettings as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
