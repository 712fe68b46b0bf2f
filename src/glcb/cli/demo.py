"""``glcb demo``: GLCB and simple baselines on three synthetic tasks."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each policy on each task.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Decisions per run.")] = 5000,
    out: Annotated[Path, typer.Option(help="Figure to write: .png, .svg or .pdf.")] = Path("glcb-demo.png"),
) -> None:
    """Compare GLCB with simple baselines on three tasks; needs no data files."""
    from rich.console import Console
    from rich.progress import Progress

    from glcb._errors import GlcbError, MissingExtra
    from glcb.bench import demo as comparison
    from glcb.bench.executors import make_executor
    from glcb.bench.figures import check_figure_path
    from glcb.bench.run import Failure, RunRecord

    check_figure_path(out)
    console = Console(highlight=False)
    for task in comparison.TASKS:
        console.print(f"{task.name:<7} {task.purpose}", markup=False)
    console.print(
        f"{steps:,} steps, {seeds} {'seed' if seeds == 1 else 'seeds'}; all policies see the same rewards."
    )
    runs = comparison.runs(seeds, steps)
    records: list[RunRecord] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("runs", total=len(runs))
        for outcome in make_executor("local").run(runs):
            if isinstance(outcome, Failure):
                raise GlcbError(f"{outcome.policy} failed on {outcome.task}: {outcome.error}")
            records.append(outcome)
            progress.advance(bar)
    console.print(comparison.table(records))
    console.print(comparison.NOTE, markup=False)
    console.print(comparison.summary(records), style="bold", markup=False)
    try:
        comparison.draw(records, out)
    except MissingExtra as missing:
        console.print(f"No figure: {missing}", markup=False)
    else:
        console.print(f"Figure: {out}", markup=False)
    console.print("More tasks and policies: glcb bench, then glcb report glcb-bench", markup=False)
