"""``glcb warm``: compile the kernels ahead of time."""

from typing import Annotated

import typer


def warm(
    processes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of processes.", show_default="one per core"),
    ] = None,
) -> None:
    """Compile all kernels and cache them on disk, so that later processes start fast.

    Run it when you build a container image, as the same user and on the same kind of CPU as the service.
    The kernels are cached in NUMBA_CACHE_DIR, or next to the package.
    """
    from glcb.bandit import warm as kernels

    folder = kernels.folder()
    typer.echo(f"compiling {', '.join(kernels.PARTS)}")
    for parts in (kernels.FIRST, kernels.REST):
        kernels.compile_in_processes(
            parts, processes, lambda part, seconds: typer.echo(f"{part}: {seconds:.1f} s")
        )
    typer.echo(f"compiled kernels are in {folder}")
