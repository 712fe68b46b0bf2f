"""``glcb data``: data files of the tasks."""

from typing import Annotated

import typer

app = typer.Typer(help="List, download and verify task data files.", no_args_is_help=True)

Tasks = Annotated[
    list[str] | None, typer.Argument(metavar="TASK", help="Names of tasks.", show_default="all")
]


@app.command("list")
def list_files() -> None:
    """List the data files: status, size, license and source."""
    from rich.console import Console
    from rich.table import Table

    from glcb.tasks import bakeoff
    from glcb.tasks.data.directory import data_directory
    from glcb.tasks.file_task import file_tasks

    console = Console()
    table = Table("task", title=f"folder: {data_directory()}", box=None, padding=(0, 2, 0, 0))
    for heading in ("file", "status", "size", "license"):
        table.add_column(heading, no_wrap=heading != "license")
    sources = []
    for task in file_tasks():
        located = task.find()
        file = located[0] if located else task.files[0]
        size = located[1].stat().st_size if located else file.size
        table.add_row(
            task.name,
            located[1].name if located else file.name,
            "present" if located else "missing",
            "–" if size is None else f"{size / 1e6:,.2f} MB",
            file.license,
        )
        sources.append(f"{task.name:<16}  {file.origin}")
    console.print(table)
    paths = [path for own in bakeoff.data_sets().values() for path in own]
    size = sum(path.stat().st_size for path in paths)
    found = f"{len(paths)} data sets, {size / 1e6:,.2f} MB" if paths else f"none; {bakeoff.how_to_add()}"
    console.print(f"\ndata sets of the bake-off: {found}", soft_wrap=True, highlight=False)
    console.print("\nsources\n" + "\n".join(sources), soft_wrap=True, highlight=False)


@app.command()
def fetch(
    tasks: Tasks = None,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Mirror to download from.", show_default="the authors' bucket"),
    ] = None,
) -> None:
    """Download missing files, resuming interrupted downloads."""
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
            if located := task.find():
                console.print(f"{task.name}: {located[1]} is already present", soft_wrap=True)
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
    """Verify the contents of the data files. Files of explicitly named tasks must be present."""
    from rich.console import Console

    from glcb._errors import DataError
    from glcb.tasks.data.verify import verify as verify_file
    from glcb.tasks.file_task import file_tasks

    console = Console()
    errors, verified = [], 0
    for task in file_tasks(*tasks or ()):
        located = task.find()
        if located is None:
            console.print(f"{task.name}: missing, run `glcb data fetch {task.name}`")
            if tasks:
                errors.append(f"{task.name}: file is missing")
            continue
        try:
            compared = verify_file(task, *located)
        except DataError as error:
            errors.append(f"{task.name}: {error}")
        else:
            console.print(f"{task.name}: {located[1].name} is valid ({compared})")
            verified += 1
    if errors:
        raise DataError("\n".join(errors))
    if not verified:
        raise DataError("no data files to verify; run `glcb data fetch`")
