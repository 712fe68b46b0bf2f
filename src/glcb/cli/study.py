"""``glcb study``: answer a question about the algorithm with a figure and tables."""

from pathlib import Path
from typing import Annotated

import typer


def study(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY", help="Study to run. Without a name, list the studies.", show_default=False
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of repetitions.", show_default="depends on the study"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a much shorter version.")] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the figure.")] = Path("glcb-study"),
) -> None:
    """Answer a question about the algorithm of the paper with a figure and tables."""
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import Progress

    from glcb._errors import InvalidSettings, MissingExtra
    from glcb._figures import require_matplotlib
    from glcb.bench import studies

    console = Console(highlight=False)
    if name is None:
        for each in studies.names():
            console.print(f"{each:<12} {studies.get(each).question}", markup=False)
        return
    kind = studies.get(name)
    chosen = kind.quick() if quick else kind()
    if seeds is not None:
        chosen = replace(chosen, seeds=seeds)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettings(f"cannot create the folder {out}: {error.strerror}") from error
    console.print(chosen.question, markup=False)
    try:
        require_matplotlib()
    except MissingExtra as missing:
        console.print(f"there will be no figure: {missing}", markup=False)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(name, total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        findings = chosen.run(show)
    for table in findings.tables:
        console.print(table)
    for remark in findings.remarks:
        console.print(f"– {remark}", markup=False)
    figure = out / f"{name}.png"
    try:
        findings.draw(figure)
    except MissingExtra as missing:
        console.print(f"no figure: {missing}", markup=False)
    else:
        console.print(f"figure: {figure}", markup=False)
