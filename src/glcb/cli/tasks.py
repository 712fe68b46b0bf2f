"""``glcb tasks``: list and describe the tasks."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glcb._types import Rewards

MAX_ARMS_SHOWN = 30

app = typer.Typer(help="List the tasks, or describe one.", invoke_without_command=True)


@app.callback()
def table(context: typer.Context) -> None:
    """List the tasks, or describe one with `glcb tasks show`."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console
    from rich.table import Table

    from glcb import tasks
    from glcb.tasks import bakeoff
    from glcb.tasks.base import NeedsData
    from glcb.tasks.file_task import FileTask

    result = Table("task", "rows", "features", "arms", "rewards", "data")
    data_sets = bakeoff.data_sets()
    for name in tasks.names():
        if name in data_sets:
            continue  # listed by name below: sizes are unknown until the files are read
        task = tasks.get(name)
        # The declared facts of a file need no parsing, and are available without the file.
        if isinstance(task, FileTask):
            facts = (task.find() or task.files)[0].facts
            features, arms = facts.features, facts.arms
        else:
            features, arms = task.features, len(task.arms)
        rows, data = "any", "synthetic"
        if isinstance(task, NeedsData):
            rows, data = f"{task.rows:,}", "present" if task.has_data() else "missing"
        result.add_row(name, rows, str(features), str(arms), _range(task.rewards), data)
    console = Console()
    console.print(result)
    if data_sets:
        console.print(
            f"{len(data_sets)} data sets in {bakeoff.folder()}:",
            soft_wrap=True,
            highlight=False,
            markup=False,
        )
        console.print(", ".join(data_sets), highlight=False, markup=False)
    else:
        console.print(f"No data sets in {bakeoff.folder()}.", soft_wrap=True, highlight=False, markup=False)
    console.print("Run `glcb tasks show TASK` to describe one of them.")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="TASK", help="Name of the task.", show_default=False)],
) -> None:
    """Describe one task: size, arms, rewards, source, and a sketch where available."""
    from rich.console import Console

    from glcb import tasks
    from glcb.tasks.bakeoff import BakeoffTask
    from glcb.tasks.base import Sketched
    from glcb.tasks.file_task import FileTask

    console = Console(highlight=False, markup=False)
    task = tasks.get(name)
    console.print(f"{task.name}\n\n" + "\n\n".join(_paragraphs(task)) + "\n")
    if isinstance(task, FileTask):
        located = task.find()
        file = located[0] if located else task.files[0]
        source = task.source if located else f"{file.name} is missing: run `glcb data fetch {name}`"
        console.print(f"file      {source}")
        console.print(f"rows      {file.facts.rows:,}")
        console.print(f"license   {file.license}\norigin    {file.origin}")
        if not located:
            return
    elif isinstance(task, BakeoffTask):
        console.print(f"file      {task.source}\nrows      {task.data.table.rows:,}")
    console.print(f"features  {task.features}")
    shown = ", ".join(map(str, task.arms[:MAX_ARMS_SHOWN]))
    rest = f", … ({len(task.arms):,} arms)" if len(task.arms) > MAX_ARMS_SHOWN else ""
    console.print(f"arms      {shown}{rest}")
    console.print(f"rewards   {_range(task.rewards)}")
    if isinstance(task, Sketched):
        console.print(f"\n{task.sketch()}")


def _range(rewards: "Rewards") -> str:
    return "0 or 1" if rewards == "binary" else f"{rewards[0]:g} … {rewards[1]:g}"


def _paragraphs(task: object) -> list[str]:
    """Return the paragraphs of the task's docstring before its parameters, without line breaks."""
    import inspect

    text = (inspect.getdoc(task) or "").partition("\n\nParameters\n")[0].replace("``", "")
    return [paragraph.replace("\n", " ") for paragraph in text.split("\n\n")]
