"""All speed and memory measurements: ``make speed``, on an otherwise idle machine.

Prints tables and writes the numbers to benchmarks/out. Name parts to run only those, as in
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

from benchmarks import fresh_process, peers, scaling, table
from benchmarks.bandits import Shape
from benchmarks.targets import Target, table_targets, targets_table
from benchmarks.timing import Effort
from glcb import InvalidSettings


@dataclass(frozen=True)
class Plan:
    """What to measure, for how long, and where to write the numbers."""

    out: Path = Path(__file__).parent / "out"
    shapes: tuple[Shape, ...] = table.SHAPES
    table_effort: Effort = field(default_factory=Effort)
    ranges: scaling.Range = field(default_factory=scaling.Range)
    scaling_effort: Effort = field(default_factory=lambda: Effort(rounds=20))
    memory_marks: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000)


def run_table(plan: Plan, console: Console) -> Iterator[Target]:
    """Time GLCB and its peers on every shape."""
    rows: list[table.Row] = []
    for shape in plan.shapes:
        measured = table.measure(shape, plan.table_effort)
        console.print(table.speed_table(shape, measured))
        rows += measured
    if peers.missing():
        console.print(f"skipped, not installed: {', '.join(peers.missing())} (pip install '.[rivals]')")
    _write(plan.out / "speed.json", rows)
    yield from table_targets(rows)


def run_scaling(plan: Plan, console: Console) -> Iterator[Target]:
    """Measure, fit and draw the scaling curves."""
    memory = {
        policy: fresh_process.growth_mb(policy, plan.ranges.main, plan.memory_marks)
        for policy in table.BANDITS
        if fresh_process.can_measure_memory()
    }
    points: list[scaling.Point] = []
    for curve in scaling.measure(plan.ranges, plan.scaling_effort):
        console.print(f"measured over {curve[0]['axis']}")
        points += curve
    console.print(scaling.scaling_table(points))
    _write(plan.out / "scaling.json", {"points": points, "memory": memory})
    scaling.draw(plan.out / "scaling.png", points, memory)
    yield from scaling.targets(points)


def run_memory(plan: Plan, console: Console) -> Iterator[Target]:
    """Measure the resident memory of a new policy and after 5000 steps of census."""
    if not fresh_process.can_measure_memory():
        console.print("memory skipped: resident memory can only be measured on Linux")
        return
    measured = {}
    for policy in table.BANDITS:
        stages, census = fresh_process.stage_mb(policy), fresh_process.census_mb(policy)
        measured[policy] = {"stages": stages, "census": census}
        console.print(
            f"resident memory, {policy}: " + ", ".join(f"{name} {mb:.0f} MB" for name, mb in stages.items())
        )
        if census is None:
            console.print("census skipped: its data is missing (glcb data list)")
        else:
            console.print(
                f"{census['mb']:.0f} MB after {census['steps']:,} steps of census, {census['cells']:,} cells"
            )
        yield from fresh_process.memory_targets(policy, stages)
    _write(plan.out / "memory.json", measured)


def run_startup(plan: Plan, console: Console) -> Iterator[Target]:
    """Measure the time to the first decision."""
    seconds = fresh_process.startup_seconds()
    for name, times in seconds.items():
        console.print(
            f"from import glcb, {name}: first decision after {times['first_decision']:.2f} s, "
            f"first update after {times['first_update']:.2f} s"
        )
    _write(plan.out / "startup.json", seconds)
    yield from fresh_process.startup_targets(seconds)


PARTS: dict[str, Callable[[Plan, Console], Iterator[Target]]] = {
    "table": run_table,
    "scaling": run_scaling,
    "memory": run_memory,
    "startup": run_startup,
}


def run(names: Iterable[str], plan: Plan, console: Console) -> list[Target]:
    """Run the named parts, or all; return their targets."""
    wanted = list(names) or list(PARTS)
    if unknown := set(wanted) - set(PARTS):
        raise InvalidSettings(f"unknown part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    plan.out.mkdir(exist_ok=True)
    console.print(conditions())
    targets = [target for name in wanted for target in PARTS[name](plan, console)]
    console.print(targets_table(targets))
    return targets


def conditions() -> str:
    """Return a description of the machine and the library versions."""
    load = os.getloadavg()[0]
    lines = [
        f"{_cpu()}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy {np.__version__}, "
        f"Numba {numba.__version__}; load {load:.1f}"
    ]
    if load > 0.5:
        lines.append("The machine is not idle: only ratios within this run are meaningful.")
    if os.environ.get("OMP_NUM_THREADS") != "1":
        lines.append("OMP_NUM_THREADS is not 1: NumPy may use more cores than glcb.")
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
    """Run the parts named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)} (default: all)")
    try:
        run(parser.parse_args().parts, Plan(), Console(width=130))
    except InvalidSettings as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
