"""``glcb tasks``: what there is to play."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glcb._types import Rewards

app = typer.Typer(help="List the tasks, or describe one.", invoke_without_command=True)


@app.callback()
def table(context: typer.Context) -> None:
    """List all tasks."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console
    from rich.table import Table

    from glcb import tasks
    from glcb.tasks.file_task import FileTask

    result = Table("task", "rows", "features", "arms", "rewards", "data")
    for name in tasks.names():
        task = tasks.get(name)
        # What is known of a file says it without parsing the file, and without its being there.
        if isinstance(task, FileTask):
            file, path = task.find() or (task.files[0], None)
            numbers = f"{file.facts.rows:,}", str(file.facts.features), str(file.facts.arms)
            there = "missing" if path is None else "yes"
        else:
            numbers, there = ("any", str(task.features), str(len(task.arms))), "made up"
        result.add_row(name, *numbers, _range(task.rewards), there)
    console = Console()
    console.print(result)
    console.print("glcb tasks show TASK describes one of them.")


@app.command()
def show(name: Annotated[str, typer.Argument(help="The task.")]) -> None:
    """Describe one task, with a picture of it where that helps."""
    from rich.console import Console

    from glcb import tasks
    from glcb.tasks.base import Sketched
    from glcb.tasks.file_task import FileTask

    console = Console(highlight=False, markup=False)
    task = tasks.get(name)
    console.print(f"{task.name}\n\n" + "\n\n".join(_paragraphs(task)) + "\n")
    if isinstance(task, FileTask):
        found = task.find()
        file = found[0] if found else task.files[0]
        where = task.source if found else f"{file.name} is missing: glcb data fetch {name}"
        console.print(f"file      {where}")
        console.print(f"rows      {file.facts.rows:,}")
        console.print(f"license   {file.license}\norigin    {file.origin}")
        if not found:
            return
    console.print(f"features  {task.features}")
    console.print(f"arms      {', '.join(map(str, task.arms))}")
    console.print(f"rewards   {_range(task.rewards)}")
    if isinstance(task, Sketched):
        console.print(f"\n{task.sketch()}")


def _range(rewards: "Rewards") -> str:
    return "0 or 1" if rewards == "binary" else f"{rewards[0]:g} … {rewards[1]:g}"


def _paragraphs(task: object) -> list[str]:
    """Return the task's own description, free to be wrapped anew."""
    import inspect

    text = (inspect.getdoc(task) or "").replace("``", "")
    return [paragraph.replace("\n", " ") for paragraph in text.split("\n\n")]
