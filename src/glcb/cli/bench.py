"""``glcb bench``: run policies on tasks and store the results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glcb.cli._options import AddressOption, JobsOption, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from glcb.bench.executors import Executor
    from glcb.bench.plan import BenchmarkPlan
    from glcb.bench.results import SummaryRow
    from glcb.bench.run import Failure, Run


def bench(
    preset: Annotated[
        str,
        typer.Option(
            metavar="PLAN",
            help="Benchmark plan: `quick`, `paper`, `bakeoff` (all data sets in the folder `bakeoff` of the "
            "data directory), `scenarios` (changes, delays, rare rewards and other difficulties), `revenue` "
            "(sparse revenue and very rare clicks) or `intents` (77 arms). Other options override it.",
        ),
    ] = "quick",
    tasks: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Tasks, separated by commas; see `glcb tasks`.", show_default=False
        ),
    ] = "",
    policies: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Policies, separated by commas; see `glcb policies`.", show_default=False
        ),
    ] = "",
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Runs of each policy on each task, with seeds 0, 1, 2, …", show_default=False
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Decisions per run.", show_default="as in the plan")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the results.")] = Path("glcb-bench"),
    executor: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where to run: `local` uses processes on this machine, `ray` the cores of a Ray cluster.",
        ),
    ] = "local",
    address: AddressOption = None,
    jobs: JobsOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run policies on tasks, store the results and print a summary.

    Runs whose results are already in the folder are skipped: repeat an interrupted command to resume it.
    """
    from rich.console import Console

    from glcb.bench.executors import make_executor
    from glcb.bench.results import Results, summarize
    from glcb.tasks.data.directory import data_directory

    console = Console(stderr=True)
    chosen = make_executor(executor, jobs, address)
    plan = _plan(preset, tasks, policies, seeds, steps, console)
    runs = plan.runs()
    if executor == "ray":
        console.print(
            f"data: every node reads {data_directory().absolute()}; nothing is copied", soft_wrap=True
        )
    failures = _execute(runs, out, chosen, console)
    records = {record.key: record for record in Results(out).records}
    rows = summarize(records[run.key] for run in runs if run.key in records)
    _print_summary(rows, json)
    for failure in failures:
        console.print(
            f"failed: {failure.task}, {failure.policy}, seed {failure.seed}: {failure.error}", markup=False
        )
    console.print(f"results: {out}; run `glcb report {out}` to write a report", soft_wrap=True)
    if failures:
        raise typer.Exit(1)


def _plan(
    preset: str, tasks: str, policies: str, seeds: int | None, steps: int | None, console: "Console"
) -> "BenchmarkPlan":
    """Apply the options to the preset; skip preset tasks whose data is missing."""
    from dataclasses import replace

    from glcb._errors import DataError, MissingExtra, install_command
    from glcb.bench import plan as plans
    from glcb.tasks import bakeoff

    base = plans.preset(preset)
    plan = replace(
        base,
        tasks=split(tasks) or base.tasks,
        policies=split(policies) or base.policies,
        seeds=base.seeds if seeds is None else seeds,
        steps=base.steps if steps is None else steps,
    )
    if not tasks:
        if not plan.tasks:
            raise DataError(f"the preset {preset!r} has no tasks: {bakeoff.how_to_add()}")
        plan, missing = plans.without_missing_data(plan)
        if missing:
            console.print(f"skipped, data is missing (see `glcb data list`): {', '.join(missing)}")
    available, unavailable = plans.without_missing_packages(plan)
    for extra, names in unavailable.items():
        if policies:
            raise MissingExtra(f"packages are missing for {', '.join(names)}: {install_command(extra)}")
        console.print(
            f"skipped, packages are missing ({install_command(extra)}): {', '.join(names)}", markup=False
        )
    return available


def _execute(runs: "Sequence[Run]", out: Path, executor: "Executor", console: "Console") -> "list[Failure]":
    """Execute the missing runs with a progress bar; return the failures."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from glcb.bench.plan import run_missing
    from glcb.bench.run import Failure

    failures = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Run times differ by a factor of several hundred: only a long averaging period gives a useful estimate.
    with Progress(*columns, console=console, speed_estimate_period=7200) as progress:
        bar = progress.add_task("runs", total=None)
        try:
            for done, total, outcome in run_missing(runs, out, executor):
                progress.update(bar, completed=done, total=total)
                if isinstance(outcome, Failure):
                    failures.append(outcome)
        except KeyboardInterrupt:
            progress.console.print(f"stopped; finished runs are in {out}; repeat the command to resume")
            raise
    return failures


def _print_summary(rows: "list[SummaryRow]", json: bool) -> None:
    if json:
        from dataclasses import asdict
        from json import dumps

        typer.echo(dumps([asdict(row) for row in rows], indent=1, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("task", "policy", box=None, padding=(0, 2, 0, 0))
    for heading in ("reward", "of optimum", "decide µs", "learn µs", "seeds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.task,
            row.policy,
            f"{row.mean:,.0f}" + (f" ± {row.sem:,.0f}" if row.sem is not None else ""),
            f"{row.mean / row.optimum:.1%}" if row.optimum else "",
            f"{row.decide_us:.0f}",
            f"{row.learn_us:.0f}",
            str(row.seeds),
        )
    Console().print(table)
