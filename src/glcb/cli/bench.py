"""``glcb bench``: play tasks with policies and record how it went."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glcb.cli._names import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from glcb.bench.executors import Engine
    from glcb.bench.plan import Experiment
    from glcb.bench.run import Failure, Run
    from glcb.bench.summary import Row


def bench(
    tasks: Annotated[str, typer.Option(help="Names, separated by commas; see `glcb tasks`.")] = "",
    policies: Annotated[str, typer.Option(help="Names, separated by commas; see `glcb policies`.")] = "",
    seeds: Annotated[int | None, typer.Option(help="Seeds 0, 1, 2, … up to this many.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of each run.")] = None,
    preset: Annotated[
        str, typer.Option(help="A ready-made experiment: `paper` or `quick`. Other options change it.")
    ] = "quick",
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("glcb-bench"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes. Default: one per core.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Play tasks with policies; what is finished already is not run again.

    Interrupted at any moment, the same command goes on where it stopped.
    """
    import os

    from rich.console import Console

    from glcb.bench.executors import LocalEngine
    from glcb.bench.results import Results
    from glcb.bench.summary import summarize

    console = Console(stderr=True)
    experiment = _experiment(preset, tasks, policies, seeds, steps, console)
    runs = experiment.runs()
    failures = _carry_out(runs, out, LocalEngine(jobs or os.cpu_count() or 1), console)
    records = {record.key: record for record in Results(out).records}
    rows = summarize(records[run.key] for run in runs if run.key in records)
    _show(rows, json)
    for failure in failures:
        console.print(
            f"failed: {failure.task}, {failure.policy}, seed {failure.seed}: {failure.error}", markup=False
        )
    console.print(f"results: {out}; `glcb report {out}` makes a report", soft_wrap=True)
    if failures:
        raise typer.Exit(1)


def _experiment(
    preset: str, tasks: str, policies: str, seeds: int | None, steps: int | None, console: "Console"
) -> "Experiment":
    """Return the preset, changed by what was named; tasks of a preset whose data is not here are left out."""
    from dataclasses import replace

    from glcb._errors import INSTALL_BASELINES, InvalidSettings, MissingExtra
    from glcb.bench.plan import PRESETS, without_missing_data, without_missing_packages

    if preset not in PRESETS:
        raise InvalidSettings(f"there is no preset {preset!r}; the presets are {', '.join(PRESETS)}")
    base = PRESETS[preset]
    experiment = replace(
        base,
        tasks=names(tasks) or base.tasks,
        policies=names(policies) or base.policies,
        seeds=base.seeds if seeds is None else seeds,
        steps=base.steps if steps is None else steps,
    )
    if not tasks:
        experiment, absent = without_missing_data(experiment)
        if absent:
            console.print(f"left out, their data is not here (`glcb data list`): {', '.join(absent)}")
    present, absent = without_missing_packages(experiment)
    if absent and policies:
        raise MissingExtra(f"{', '.join(absent)} need JAX and optax: {INSTALL_BASELINES}")
    if absent:
        console.print(f"left out, they need JAX ({INSTALL_BASELINES}): {', '.join(absent)}", markup=False)
    return present


def _carry_out(runs: "Sequence[Run]", out: Path, engine: "Engine", console: "Console") -> "list[Failure]":
    """Carry out what is missing, with a progress bar; return what failed."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from glcb.bench.plan import carry_out
    from glcb.bench.run import Failure

    failures = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Runs differ in length by a factor of hundreds: only a long memory gives a fair estimate.
    with Progress(*columns, console=console, speed_estimate_period=7200) as progress:
        bar = progress.add_task("runs", total=None)
        try:
            for done, total, outcome in carry_out(runs, out, engine):
                progress.update(bar, completed=done, total=total)
                if isinstance(outcome, Failure):
                    failures.append(outcome)
        except KeyboardInterrupt:
            progress.console.print(f"stopped; what is finished is in {out}, the same command goes on")
            raise
    return failures


def _show(rows: "list[Row]", json: bool) -> None:
    if json:
        from dataclasses import asdict
        from json import dumps

        typer.echo(dumps([asdict(row) for row in rows], indent=1, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("task", "policy", box=None, padding=(0, 2, 0, 0))
    for heading in ("reward", "of best", "µs decide", "µs learn", "seeds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.task,
            row.policy,
            f"{row.mean:,.0f}" + (f" ± {row.sem:,.0f}" if row.sem is not None else ""),
            f"{row.mean / row.optimum:.1%}" if row.optimum else "",
            f"{row.us_decide:.0f}",
            f"{row.us_learn:.0f}",
            str(row.seeds),
        )
    Console().print(table)
