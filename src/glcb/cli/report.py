"""``glcb report``: a folder of results, made readable."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of the results, as `glcb bench --out` made it.")],
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: the same folder.")] = None,
    reference: Annotated[
        str | None,
        typer.Option(help="The policy that others are compared with. Default: the one that ranks best."),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Write no report, only bring the tables of this Markdown file up to date."),
    ] = None,
) -> None:
    """Write report.html and report.md: tables and pictures of a folder of results."""
    from glcb.bench.report import insert, write

    if into is not None:
        insert(folder, into)
        return
    for path in write(folder, out, reference):
        typer.echo(path)
