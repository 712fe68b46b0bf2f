"""``glcb report``: write a report on benchmark results."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Folder with results, written by `glcb bench --out`.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for the report.", show_default="the folder of the results"
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Policy to compare all policies with.",
            show_default="the best-ranked",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of writing a report, update the tables in this Markdown file. A line "
            "`<!-- results: NAME SECTION … -->` marks where the tables of the folder NAME begin.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a report with tables and figures: report.html and report.md."""
    from glcb._figures import require_matplotlib
    from glcb.bench.report import insert, write

    if into is not None:
        insert(folder, into, reference)
        return
    require_matplotlib()
    for path in write(folder, out, reference):
        typer.echo(path)
