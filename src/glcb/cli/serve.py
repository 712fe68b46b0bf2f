"""``glcb serve``: decisions over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[str | None, typer.Option(help="File of the data. Default: glcb.db.", show_default=False)]
Database = Annotated[
    str | None, typer.Option(help="URL of a PostgreSQL database, instead of a file.", show_default=False)
]
Config = Annotated[Path | None, typer.Option(help="TOML file of settings.", show_default=False)]


def serve(
    host: Annotated[str | None, typer.Option(help="Default: 127.0.0.1.", show_default=False)] = None,
    port: Annotated[int | None, typer.Option(help="Default: 8000; 0 picks one.", show_default=False)] = None,
    data: Data = None,
    database: Database = None,
    config: Config = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting.", show_default=False),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Three experiments with made-up visitors, in a temporary folder.")
    ] = False,
) -> None:
    """Serve decisions over HTTP; what was answered is on disk.

    Every setting can also be given in the environment, as GLCB_SERVE_NAME, or in a TOML file.
    """
    from glcb.cli._service import service

    with service():
        from glcb.service.config import load
        from glcb.service.server import serve as run

    flags = {"host": host, "port": port, "data": data, "database": database}
    settings = load(flags, config, pairs=setting or [])
    if demo:
        from glcb.service.demo import serve_demo

        serve_demo(settings)
    else:
        run(settings)
