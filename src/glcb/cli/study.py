"""``glcb study``: a question about the algorithm, answered by a picture and a small table."""

from pathlib import Path
from typing import Annotated

import typer


def study(
    name: Annotated[
        str | None, typer.Argument(help="Which study. Left out: list them.", show_default=False)
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions, if not its own number.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the records.")] = Path("glcb-study"),
    quick: Annotated[bool, typer.Option("--quick", help="Much shorter, for a first impression.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes. Default: one per core.")] = None,
) -> None:
    """Look into one question about the algorithm, or about what `Bandit` costs and brings."""
    import os
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import Progress

    from glcb._errors import InvalidSettings, MissingExtra
    from glcb.bench import studies

    console = Console(highlight=False)
    if name is None:
        for known in studies.names():
            console.print(f"{known:<12} {studies.get(known).question}", markup=False)
        return
    kind = studies.get(name)
    chosen = kind.quick() if quick else kind()
    if seeds is not None:
        chosen = replace(chosen, seeds=seeds)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettings(f"cannot make the folder {out}: {error.strerror}") from error
    console.print(chosen.question, markup=False)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(name, total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        findings = chosen.carry_out(studies.Workplace(out / name, jobs or os.cpu_count() or 1, show))
    for table in findings.tables:
        console.print(table)
    for remark in findings.remarks:
        console.print(f"– {remark}", markup=False)
    picture = out / f"{name}.png"
    try:
        findings.draw(picture)
    except MissingExtra as missing:
        console.print(f"No picture: {missing}", markup=False)
    else:
        console.print(f"Picture: {picture}", markup=False)
