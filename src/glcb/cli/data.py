"""``glcb data``: the files that tasks are made from."""

from typing import Annotated

import typer

app = typer.Typer(help="List, fetch and verify the data files.", no_args_is_help=True)

Tasks = Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", help="Tasks; all if none is named.")]


@app.command("list")
def list_files() -> None:
    """Show which data files are there and which are missing."""
    from rich.console import Console
    from rich.table import Table

    from glcb.tasks.data.directory import data_directory
    from glcb.tasks.file_task import file_tasks

    console = Console()
    table = Table("task", title=f"in {data_directory()}", box=None, padding=(0, 2, 0, 0))
    for heading in ("file", "there", "size", "license"):
        table.add_column(heading, no_wrap=heading != "license")
    sources = []
    for task in file_tasks():
        found = task.find()
        file = found[0] if found else task.files[0]
        size = found[1].stat().st_size if found else file.size
        table.add_row(
            task.name,
            found[1].name if found else file.name,
            "yes" if found else "missing",
            "–" if size is None else f"{size / 1e6:,.2f} MB",
            file.license,
        )
        sources.append(f"{task.name:<16}  {file.origin}")
    console.print(table)
    console.print("\nsources\n" + "\n".join(sources), soft_wrap=True, highlight=False)


@app.command()
def fetch(
    tasks: Tasks = None,
    base_url: Annotated[str | None, typer.Option(help="A mirror instead of the authors' bucket.")] = None,
) -> None:
    """Download the files that are missing. A download that was interrupted goes on where it stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from glcb._errors import DataError
    from glcb.tasks.data.fetch import BUCKET
    from glcb.tasks.data.fetch import fetch as fetch_file
    from glcb.tasks.file_task import file_tasks

    console = Console()
    failed = []
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task("", total=None)

        def show(name: str, have: int, total: int | None) -> None:
            bar.update(line, description=name, completed=have, total=total)

        for task in file_tasks(*tasks or ()):
            found = task.find()
            if found:
                console.print(f"{task.name}: {found[1]} is there already", soft_wrap=True)
                continue
            try:
                path = fetch_file(task, base_url=base_url or BUCKET, progress=show)
            except DataError as error:
                failed.append(f"{task.name}: {error}")
            else:
                console.print(f"{task.name}: {path}", soft_wrap=True)
    if failed:
        raise DataError("\n".join(failed))


@app.command()
def verify(tasks: Tasks = None) -> None:
    """Check that the files that are there are the right ones, and those of the tasks named are there."""
    from rich.console import Console

    from glcb._errors import DataError
    from glcb.tasks.data.verify import verify as verify_file
    from glcb.tasks.file_task import file_tasks

    console = Console()
    wrong, genuine = [], 0
    for task in file_tasks(*tasks or ()):
        found = task.find()
        if found is None:
            console.print(f"{task.name}: missing, run `glcb data fetch {task.name}`")
            if tasks:
                wrong.append(f"{task.name}: its file is missing")
            continue
        try:
            compared = verify_file(task, *found)
        except DataError as error:
            wrong.append(f"{task.name}: {error}")
        else:
            console.print(f"{task.name}: {found[1].name} is genuine ({compared})")
            genuine += 1
    if wrong:
        raise DataError("\n".join(wrong))
    if not genuine:
        raise DataError("none of the files is here: nothing could be checked")
